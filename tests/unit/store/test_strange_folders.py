"""One bad folder beside a good one: the good one is shown, the bad one says what is wrong with it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from making import make_run
from trainmark.cli.main import main
from trainmark.runfolder.files import RUN_FILE, Json, rank_file
from trainmark.store import folder as reading
from trainmark.store.index import Store
from trainmark.store.rank_records import RankRecords

_EXCHANGE: dict[str, Any] = {
    "kind": "communication", "pairs": [[0.2, 0.1]], "gradient_bytes": 1000, "num_ranks": 2, "all_reduce_s": [0.1],
}  # fmt: skip
_LOW, _HUGE = "\\ud800", "1" + "0" * 400


def change_run(folder: Path, **changes: Any) -> None:
    path = folder / RUN_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def add_record(folder: Path, **changes: Any) -> None:
    with (folder / rank_file(0)).open("a") as file:
        file.write(json.dumps({**_EXCHANGE, **changes}) + "\n")


def change_cell(folder: Path, **changes: Any) -> None:
    change_run(folder, cell={**json.loads((folder / RUN_FILE).read_text())["cell"], **changes})


DAMAGED = {
    "no JSON": '{"cell": {',
    "no object": "[]",
    "no cell": "{}",
    "a cell that is none": '{"cell": 3}',
    "empty": "",
}
STRANGE: dict[str, Callable[[Path], object]] = {
    "a huge time": lambda folder: add_record(folder, pairs=[[10**400, 1.0]]),
    "no time at all": lambda folder: add_record(folder, all_reduce_s=[5e-324]),
    "a list as outcome": lambda folder: (folder / "exit.json").write_text('{"outcome": [], "reason": {}}'),
    "half a letter in env.json": lambda folder: (folder / "env.json").write_text(f'{{"cpu": "x", "a": ["{_LOW}"]}}'),
    "a huge number in env.json": lambda folder: (folder / "env.json").write_text(f'{{"memory_bytes": {_HUGE}}}'),
    "half a letter as target": lambda folder: change_cell(folder, until_target={"\ud800": 1.0}),
    "half a letter in log": lambda folder: change_run(folder, dialect="x", log={"stated": {"\ud800": 1}}),
    "nan in log": lambda folder: change_run(folder, dialect="x", log={"stated": {"a": {"value": float("nan")}}}),
    "nearly nothing in log": lambda folder: change_run(
        folder, dialect="x", log={"stated": {"a": {"value": 5e-324}}, "target": {"value": 10**400}}
    ),
    "too many devices": lambda folder: change_cell(folder, nodes=2**62, devices_per_node=2**62),
    "a folder as rank": lambda folder: (folder / "rank1.jsonl").mkdir(),
    "a rank that leads nowhere": lambda folder: (folder / "rank1.jsonl").symlink_to("gone"),
    "a step in no time": lambda folder: add_record(folder, kind="step", seconds=5e-324, samples=1e299),
    "a pause backwards": lambda folder: add_record(folder, kind="phase", phase="eval", seconds=-5.0),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_folder_hides_none(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "good")
    STRANGE[name](make_run(tmp_path, "strange"))
    for words in (["show"], ["show", "--json"], ["report", "--output", str(tmp_path / "x.md")]):
        assert main([*words, "--store", str(tmp_path)]) == 0
    assert main(["show", "--json", "--store", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    document = json.loads(out[out.rindex('{\n "schema"') :], parse_constant=lambda _: pytest.fail("no JSON"))
    speeds = {result["id"]: result["throughput"] for result in document["results"]}
    assert sorted(speeds) == ["good", "strange"]
    assert speeds["good"]["value"] == pytest.approx(40.0)
    assert all(version for _, version in Store(tmp_path)._read("runs", ("id", "analysis_version")))


def test_a_fault_of_one_folder_is_its_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, "bad")
    make_run(tmp_path, "good")
    real = reading.read_ranks

    def fail_for_bad(folder: Path) -> tuple[RankRecords, list[Json]]:
        if folder.name == "bad":
            raise PermissionError(13, "Permission denied", str(folder / "rank0.jsonl"))
        return real(folder)

    monkeypatch.setattr(reading, "read_ranks", fail_for_bad)
    store = Store(tmp_path)
    store.sync()
    bad, good = sorted(store.rows(), key=lambda row: row.id)
    assert (good.outcome, len(good.seconds)) == ("ok", 50)
    assert (bad.outcome, bad.workload, len(bad.seconds)) == ("failed", "resnet50", 0)
    assert bad.reason == "the folder cannot be read: rank0.jsonl: Permission denied"
    monkeypatch.undo()
    (tmp_path / "bad" / "rank0.jsonl").chmod(0o600)  # somebody mends it
    store.sync()
    assert [row.outcome for row in store.rows()] == ["ok", "ok"]


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_run_is_shown_as_one(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "good")
    (make_run(tmp_path, "bad") / RUN_FILE).write_text(text)
    (tmp_path / "of-others").mkdir()
    (tmp_path / "of-others" / RUN_FILE).write_text(text)
    assert main(["show", "--reindex", "--store", str(tmp_path)]) == 0
    assert "bad: failed: the folder cannot be read: run.json is damaged" in capsys.readouterr().out
    assert sorted(row.id for row in Store(tmp_path).rows()) == ["bad", "good"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("rank", [0, 1])
def test_an_unreadable_file(tmp_path: Path, rank: int) -> None:
    path = make_run(tmp_path, "bad") / rank_file(rank)
    path.touch()
    path.chmod(0)
    Store(tmp_path).sync()
    (row,) = Store(tmp_path).rows()
    assert (row.outcome, path.name in row.reason) == ("failed", True)


def test_a_folder_that_goes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run(tmp_path, "going")

    def remove(_: Path) -> None:
        (folder / RUN_FILE).unlink()
        raise FileNotFoundError(2, "No such file or directory", "rank1.jsonl")

    monkeypatch.setattr(reading, "read_ranks", remove)
    Store(tmp_path).sync()
    assert Store(tmp_path).rows() == []


def test_a_name_that_is_no_text_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "good")
    make_run(tmp_path, os.fsdecode(b"\xff"))
    Store(tmp_path).sync()
    assert [row.id for row in Store(tmp_path).rows()] == ["good"]
    assert capsys.readouterr().err == "\ufffd: skipped, its name is not valid UTF-8\n"
