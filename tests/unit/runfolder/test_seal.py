"""A finished run is sealed: whoever changes its records later changes no number without a warning."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from making import make_run
from trainmark.analyse.comparable import why_left_out
from trainmark.logs.importing import Task, import_file
from trainmark.logs.record import Facts
from trainmark.report.columns import describe_numbers
from trainmark.runfolder.ending import write_exit
from trainmark.runfolder.files import EXIT_FILE, STEPS_FILE, rank_file, write_text
from trainmark.store import folder as reading
from trainmark.store.folder import read_run
from trainmark.store.index import Store
from trainmark.store.rows import RunRow

_SEEDS = 120


def make_sealed(root: Path, name: str, *, seed: int = 0) -> Path:
    chance = random.Random(seed)
    seconds = [0.1 * (1 + chance.random() / 10) for _ in range(60)]
    loss = [{"kind": "step", "step": n, "loss": chance.random()} for n in range(61, 71)]
    evals = [{"kind": "eval", "step": 60, "epoch": 1, "time_s": 6.0, "metric": "top1", "value": chance.random()}]
    folder = make_run(root, name, seconds=seconds, extra=[*loss, *evals])
    (folder / rank_file(1)).write_bytes((folder / rank_file(0)).read_bytes().replace(b'"loss": 0', b'"loss": 1'))
    seal(folder)
    return folder


def seal(folder: Path) -> None:
    document = json.loads((folder / EXIT_FILE).read_text())
    write_exit(folder, document)


def read(folder: Path) -> RunRow:
    row = read_run(folder)
    assert row is not None
    return row


def codes(folder: Path) -> list[str]:
    return [warning["code"] for warning in read(folder).warnings]


def numbers(folder: Path) -> Any:
    """All that is printed of a run, without its name and the warnings."""
    return {**describe_numbers(read(folder)), "id": None}


# -- damages: each takes the folder, another run and a source of randomness --------------------------------------------


def cut(folder: Path, other: Path, chance: random.Random) -> None:
    path = folder / rank_file(0)
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def flip(folder: Path, other: Path, chance: random.Random) -> None:
    path = folder / rank_file(0)
    content = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 20)):
        place = chance.randrange(len(content))
        content[place] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def change_digits(folder: Path, other: Path, chance: random.Random) -> None:
    """Of the same size, and still JSON."""
    path = folder / rank_file(0)
    content = bytearray(path.read_bytes())
    digits = [place for place, byte in enumerate(content) if chr(byte) in "123456789"]
    for place in chance.sample(digits, 5):
        content[place] = ord("1") + (content[place] - ord("1") + 1) % 9
    path.write_bytes(content)


def delete_lines(folder: Path, other: Path, chance: random.Random) -> None:
    path = folder / rank_file(0)
    lines = path.read_bytes().splitlines(keepends=True)
    gone = {chance.randrange(len(lines)) for _ in range(chance.randrange(1, 10))}
    path.write_bytes(b"".join(line for number, line in enumerate(lines) if number not in gone))


def swap_ranks(folder: Path, other: Path, chance: random.Random) -> None:
    first, second = folder / rank_file(0), folder / rank_file(1)
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])


def take_from_another_run(folder: Path, other: Path, chance: random.Random) -> None:
    shutil.copyfile(other / rank_file(0), folder / rank_file(0))


def remove(folder: Path, other: Path, chance: random.Random) -> None:
    (folder / rank_file(0)).unlink()


DAMAGES: list[Callable[[Path, Path, random.Random], None]] = [
    cut, flip, change_digits, delete_lines, swap_ranks, take_from_another_run, remove,
]  # fmt: skip


def test_no_damage_changes_a_number_without_a_warning(tmp_path: Path) -> None:
    sound, other = make_sealed(tmp_path, "sound"), make_sealed(tmp_path, "other", seed=1)
    before = numbers(sound)
    assert codes(sound) == []
    num_changed = num_silent_without_seal = 0
    for seed in range(_SEEDS):
        chance = random.Random(seed)
        folder = tmp_path / f"damaged{seed}"
        shutil.copytree(sound, folder)
        chance.choice(DAMAGES)(folder, other, chance)
        is_changed = numbers(folder) != before
        num_changed += is_changed
        assert not is_changed or codes(folder) == ["changed-after-end"], seed
        (folder / EXIT_FILE).write_text('{"outcome": "ok", "reason": "done", "wall_s": 12.0}')
        num_silent_without_seal += is_changed and codes(folder) == []
    assert num_changed > _SEEDS / 2
    assert num_silent_without_seal > 10


def test_the_files_are_named(tmp_path: Path) -> None:
    folder = make_sealed(tmp_path, "run")
    (folder / rank_file(1)).unlink()
    write_text(folder / rank_file(7), "{}\n")
    (folder / "run.json").write_text((folder / "run.json").read_text().replace("ResNet-50 v1.5", "ResNet-51 v1.5"))
    (warning,) = read(folder).warnings
    assert warning["params"] == {"files": ["rank1.jsonl", "rank7.jsonl", "run.json"]}
    assert "rank1.jsonl, rank7.jsonl, run.json" in warning["message"]


def test_other_files_may_change(tmp_path: Path) -> None:
    folder = make_sealed(tmp_path, "run")
    for name in ("output.log", "checkpoint.pt", "lease", "stop", "rank0.stacks", "notes.txt"):
        write_text(folder / name, "anything")
    assert codes(folder) == []


def test_a_copied_run_is_as_it_was(tmp_path: Path) -> None:
    shutil.copytree(make_sealed(tmp_path, "run"), tmp_path / "copy")
    assert codes(tmp_path / "copy") == []


@pytest.mark.parametrize("files", [[], 3, {"rank0.jsonl": 3}, {"../x": {}}, {"rank0.jsonl": {"num_bytes": "x"}}])
def test_a_strange_seal_hides_no_run(tmp_path: Path, files: Any) -> None:
    folder = make_run(tmp_path, "run")
    document = {**json.loads((folder / EXIT_FILE).read_text()), "files": files}
    (folder / EXIT_FILE).write_text(json.dumps(document))
    assert codes(folder) == (["changed-after-end"] if isinstance(files, dict) else [])


def test_records_without_an_end_are_incomplete(tmp_path: Path) -> None:
    """Also in a folder of an older version, which has no seal."""
    folder = make_run(tmp_path, "run")
    assert codes(folder) == []
    path = folder / rank_file(0)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert codes(folder) == ["no-end-record"]
    assert codes(make_run(tmp_path, "killed", outcome="killed")) == []


def test_an_imported_log_is_sealed(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    line = (
        "2021-05-11 00:00:{n:02d} [INFO]\t[TRAIN] epoch: 1, iter: {n}/100, loss: 1.5, lr: 0.01, "
        "batch_cost: 0.3{n}, reader_cost: 0.001, ips: 20.5 samples/sec | ETA 07:41:26\n"
    )
    log.write_text("".join(line.format(n=n) for n in range(10, 50)))
    task = Task(path=log, store=tmp_path / "store", given=Facts(devices=1), pattern=None, targets={})
    run_id = import_file(task).run_id
    assert run_id is not None
    folder = tmp_path / "store" / run_id
    assert "changed-after-end" not in codes(folder)
    with (folder / rank_file(0)).open("ab") as file:
        file.write(b"\n")
    assert "changed-after-end" in codes(folder)


def import_log(root: Path) -> Path:
    log = root / "other.log"
    line = (
        "2021-05-11 00:00:{n:02d} [INFO]\t[TRAIN] epoch: 1, iter: {n}/100, loss: 1.5, lr: 0.01, "
        "batch_cost: 0.3{n}, reader_cost: 0.001, ips: 20.5 samples/sec | ETA 07:41:26\n"
    )
    log.write_text("".join(line.format(n=n) for n in range(10, 50)))
    task = Task(path=log, store=root / "store", given=Facts(devices=1), pattern=None, targets={})
    run_id = import_file(task).run_id
    assert run_id is not None
    return root / "store" / run_id


def test_the_steps_of_an_imported_log_are_sealed(tmp_path: Path) -> None:
    folder = import_log(tmp_path)
    path = folder / STEPS_FILE
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    assert "changed-after-end" in codes(folder)


def test_a_seal_of_before_does_not_know_these_steps(tmp_path: Path) -> None:
    folder = import_log(tmp_path)
    document = json.loads((folder / EXIT_FILE).read_text())
    del document["files"][STEPS_FILE], document["sha256"]
    (folder / EXIT_FILE).write_text(json.dumps(document))
    assert "changed-after-end" not in codes(folder)


@pytest.mark.parametrize("change", [("12.0", "13.0"), ('"done"', '"dome"'), ('"num_bytes": ', '"num_bytes": 1')])
def test_the_end_itself_is_sealed(tmp_path: Path, change: tuple[str, str]) -> None:
    folder = make_sealed(tmp_path, "run")
    text = (folder / EXIT_FILE).read_text()
    (folder / EXIT_FILE).write_text(text.replace(*change))
    (warning,) = read(folder).warnings
    assert EXIT_FILE in warning["params"]["files"]
    why = why_left_out(read(folder))
    assert why is not None
    assert why.code == "run-changed"


def test_an_end_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    folder = make_sealed(tmp_path, "run")
    (folder / EXIT_FILE).write_text((folder / EXIT_FILE).read_text()[:40])
    assert (read(folder).outcome, read(folder).reason) == ("killed", "exit.json is damaged")


def test_incomplete_records_are_not_compared(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "run")
    path = folder / rank_file(0)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    why = why_left_out(read(folder))
    assert why is not None
    assert why.code == "run-incomplete"


def test_files_are_hashed_only_when_a_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_sealed(tmp_path, "run")
    Store(tmp_path).sync()
    monkeypatch.setattr(reading, "find_changed", lambda *_: pytest.fail("hashed again"))
    Store(tmp_path).sync()
    assert [row.warnings for row in Store(tmp_path).rows()] == [()]
