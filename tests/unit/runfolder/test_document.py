"""run.json as types: today's files, those of commit 7cd78e8, and what strangers write."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from making import make_cell
from old_store import unpack
from trainmark.runfolder.document import CellRecord, MeasureRecord, Provenance, RunDocument, WorkloadCell
from trainmark.spec.cell import Cell, DataSource
from trainmark.spec.command import CommandCell
from trainmark.spec.suite import Measure

COMMAND = CommandCell(
    template=("python", "train.py", "--bs", "{batch_size}"), device=None, nodes=1, devices_per_node=2,
    batch_size_per_device=8, precision=None, seed=None, repeat=3,
)  # fmt: skip
TRAINING = make_cell(
    data=DataSource.parse("cached:/data/x"), epochs=4, lr=0.5, until_target=(("top1", 0.7), ("top5", 0.9))
)


def told(value: Any) -> Any:
    """Without nulls and empty objects, which mean the same as an absent key."""
    if not isinstance(value, dict):
        return value
    return {name: told(item) for name, item in value.items() if item is not None and item != {} and item is not False}


def test_run_files_of_7cd78e8_keep_every_value(tmp_path: Path) -> None:
    paths = sorted(unpack(tmp_path).glob("*/run.json"))
    assert len(paths) > 30
    for path in paths:
        before = json.loads(path.read_text())
        document = RunDocument.read(path.parent)
        assert document is not None
        assert document.others == {}, path
        assert told(document.to_json()) == told(before), path
        assert set(before["cell"]) - {"devices"} <= set(document.to_json()["cell"])
        assert RunDocument.from_json(json.loads(json.dumps(document.to_json()))) == document


@pytest.mark.parametrize("cell", [make_cell(), TRAINING, COMMAND], ids=["speed", "training", "command"])
def test_a_cell_survives_run_json(cell: Cell | CommandCell) -> None:
    record = CellRecord.from_json(json.loads(json.dumps(cell.to_json())))
    assert record.to_json() == cell.to_json()
    assert type(cell).from_json(record.to_json()) == cell


def test_the_worker_gets_every_field_of_a_cell() -> None:
    assert {item.name for item in fields(WorkloadCell)} == {item.name for item in fields(Cell)}
    cell = CellRecord.from_json(TRAINING.to_json()).workload_cell()
    assert asdict(cell) == {**TRAINING.to_json(), "weights": None}


def test_the_measure_of_a_suite_is_the_one_of_run_json() -> None:
    record = MeasureRecord(**asdict(Measure(max_steps=3)))
    assert MeasureRecord.from_json(record.to_json()) == record
    assert record.to_json() == asdict(Measure(max_steps=3))
    assert MeasureRecord(hang_least_s=2.0).to_json() == {"hang_least_s": 2.0}


@pytest.mark.parametrize("missing", ["workload", "nodes", "seed"])
def test_an_incomplete_cell_is_refused_by_name(missing: str) -> None:
    value = {**make_cell().to_json(), missing: None}
    with pytest.raises(ValueError, match=missing):
        Cell.from_json(value)


def test_a_command_is_not_taken_for_a_workload() -> None:
    with pytest.raises(ValueError, match="command"):
        CommandCell.from_json(make_cell().to_json())
    with pytest.raises(ValueError, match="workload"):
        Cell.from_json(COMMAND.to_json())


def test_unknown_keys_survive_rewriting(tmp_path: Path) -> None:
    document = RunDocument.from_json({"cell": {}, "of_the_future": {"a": [1]}, "schema": 1})
    assert document is not None
    replace(document, dialect="mark").write(tmp_path)
    assert json.loads((tmp_path / "run.json").read_text())["of_the_future"] == {"a": [1]}


def test_all_fields_survive(tmp_path: Path) -> None:
    document = RunDocument(
        cell=CellRecord.from_json(TRAINING.to_json()), cell_id="a", suite="s", source="x.log",
        dialect="d", unit="images", model="m", measure=MeasureRecord(max_seconds=1.0), eval_every=2,
        memory_limit_bytes=3, purpose="find-batch", find_batch={"largest": 4}, asked="a b", sweep="w",
        attempt=2, retry_of="r", resumed_from="p",
        created_unix_s=1.5, provenance=Provenance(sha256="0", num_bytes=1, reader=3, given={"devices": 1}, pattern="1"),
    )  # fmt: skip
    document.write(tmp_path)
    assert RunDocument.read(tmp_path) == document


@pytest.mark.parametrize("value", [None, 3, [], {}, {"cell": 3}, {"cell": []}])
def test_what_describes_no_run(value: Any) -> None:
    assert RunDocument.from_json(value) is None


def test_values_of_the_wrong_type_are_unknown() -> None:
    wrong = {
        "nodes": 10**400,
        "lr": float("inf"),
        "workload": 3,
        "until_target": {"\ud800": 1, "a": "b"},
        "command": "x",
    }
    document = RunDocument.from_json({"cell": wrong, "unit": 3, "attempt": True, "measure": [], "log": {"stated": 3}})
    assert document is not None
    assert document.cell == CellRecord(until_target={"?": 1.0})
    assert (document.unit, document.attempt, document.measure) == ("samples", None, None)
    assert document.log is not None
    assert document.log.stated == {}
