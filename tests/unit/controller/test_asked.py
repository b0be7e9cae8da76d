"""What a sweep asked for and did not get is named by every verb that shows its runs, also long after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from listening import KeepingListener
from making import make_cell, make_run
from trainmark.cli.main import main
from trainmark.controller.results import read_asked
from trainmark.controller.sweep import SweepRequest, open_sweep
from trainmark.messages.message import Message
from trainmark.messages.skips import too_few_cores
from trainmark.runfolder.files import ENVIRONMENT_FILE, RUN_FILE, write_json
from trainmark.spec.cell import Cell
from trainmark.store.folder import read_run
from trainmark.store.index import Store
from trainmark.store.sweeps import Sweeps

WHY = too_few_cores(wanted=8, available=4)


def make_sweep(root: Path, *, planned: list[Cell], skipped: dict[Cell, Message]) -> str:
    request = SweepRequest(content=f"c{len(planned)}", cells=planned, skipped=skipped)
    with open_sweep(request, Store(root), KeepingListener(), fresh=False, resumes=False) as (held, _):
        held.finish()
        return held.record.id


def add_run(root: Path, name: str, cell: Cell, sweep: str, **facts: Any) -> None:
    folder = make_run(root, name, cell=cell, **facts)
    run = json.loads((folder / RUN_FILE).read_text())
    write_json(folder / RUN_FILE, {**run, "sweep": sweep})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """1 and 2 ran, 4 was planned, 8 skipped."""
    cells = {devices: make_cell(devices_per_node=devices) for devices in (1, 2, 4, 8)}
    sweep = make_sweep(tmp_path, planned=[cells[1], cells[2], cells[4]], skipped={cells[8]: WHY})
    for devices in (1, 2):
        add_run(tmp_path, f"run{devices}", cells[devices], sweep)
    return tmp_path


def missing(text: str) -> dict[int, Any]:
    (study,) = json.loads(text)["scaling"]
    return {line["devices"]: line["missing"]["why"] for line in study["lines"] if line["missing"]}


@pytest.mark.parametrize("verb", ["show --json", "report --json", "export --format json"])
def test_what_is_missing_is_named(root: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb.split(), "--store", str(root)]) == 0
    assert missing(capsys.readouterr().out) == {4: "not_run", 8: "skipped"}
    assert main([*verb.split(), "run1", "--store", str(root)]) == 0
    assert missing(capsys.readouterr().out) == {8: "skipped"}, "2 ran, though it is not among the runs named"


@pytest.mark.parametrize("verb", ["show", "report", "report --format console"])
def test_it_is_said_to_a_person(root: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb.split(), "--store", str(root)]) == 0
    assert f"missing: skipped: {WHY}" in capsys.readouterr().out


def test_a_sweep_of_one_count_asks_for_no_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [make_cell(repeat=repeat) for repeat in (1, 2)]
    sweep = make_sweep(tmp_path, planned=cells, skipped={})
    add_run(tmp_path, "run", cells[0], sweep)
    assert main(["show", "--json", "--store", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["scaling"] == []


@pytest.mark.parametrize(
    "change", [{"nodes": "two"}, {"nodes": -1}, {"nodes": True}, {"workload": ["x"]}, {"epochs": {}}, {"data": None}]
)
def test_a_strange_cell_is_left_out(root: Path, change: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = root.glob(".sweep-*.json")
    document = json.loads(path.read_text())
    document["skipped"][0]["cell"] |= change
    document["planned"][2]["cell"] |= change
    path.write_text(json.dumps(document))
    assert main(["show", "--json", "--store", str(root)]) == 0
    assert missing(capsys.readouterr().out) == {}


def test_a_reason_that_is_no_text_can_be_printed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = root.glob(".sweep-*.json")
    path.write_text(path.read_text().replace(WHY.english, "\\ud800\\u001b[31m"))
    assert main(["show", "--store", str(root)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_it_belongs_to_the_machine_of_its_sweep(root: Path) -> None:
    row = read_run(root / "run1")
    assert row is not None
    assert {cell.machine for cell in read_asked(root, [row], is_selection=False)} == {None}
    (root / "run1" / ENVIRONMENT_FILE).write_text(json.dumps({"cpu": "EPYC"}))
    row = read_run(root / "run1")
    assert row is not None
    asked = read_asked(root, [row], is_selection=False)
    assert {cell.machine for cell in asked} == {"EPYC"}
    assert [cell.devices for cell in asked] == [1, 2, 4, 8]


def test_a_search_for_the_batch_asks_with_the_batch_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Planned is what was measured; what was left out has the batch that the search would have begun at."""
    cells = [make_cell(devices_per_node=devices, batch_size_per_device=60) for devices in (1, 2)]
    sweep = make_sweep(tmp_path, planned=cells, skipped={make_cell(devices_per_node=8): WHY})
    for number, cell in enumerate(cells):
        add_run(tmp_path, f"run{number}", cell, sweep)
    assert main(["show", "--json", "--store", str(tmp_path)]) == 0
    assert missing(capsys.readouterr().out) == {}


def test_the_cells_of_a_sweep_are_read_once_for_all_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [make_cell(devices_per_node=1 << number % 4, repeat=number // 4 + 1) for number in range(1000)]
    sweep = make_sweep(tmp_path, planned=cells, skipped={})
    add_run(tmp_path, "run", cells[0], sweep)
    row = read_run(tmp_path / "run")
    assert row is not None
    reads, read_cells = [], Sweeps.read_cells
    monkeypatch.setattr(Sweeps, "read_cells", lambda self, name: reads.append(name) or read_cells(self, name))
    assert len(read_asked(tmp_path, [row] * 1000, is_selection=False)) == 4
    assert len(reads) == 1
