"""parity/*.json: what a file claims is believed only as far as its numbers go."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainmark.report.parity import find_answer
from trainmark.runfolder import parity as runfolder_parity
from trainmark.runfolder.parity import Contestant, PairRecord, ParityRecord, StageRecord, read_parity, write_parity

STAGE = StageRecord(
    stage="trajectory", precision="fp32", measured=0.5, limit=1.0, holds=True, worst="steps 1", steps=200, repeats=8
)
ONE, OTHER = (
    Contestant(framework=name, recipe="reference", version=f"{name} 1.0", code="c0de", parts={"lib": "2"})
    for name in ("torch", "jax")
)
RECORD = ParityRecord(
    workload="resnet50",
    card_version=1,
    size="small",
    device="cpu",
    seed=3,
    variables={"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"},
    code="x",
    unix_s=1.0,
    pairs=(PairRecord(one=ONE, other=OTHER, stages=(STAGE,)),),
)


def read_changed(tmp_path: Path, **change: Any) -> list[ParityRecord]:
    path = write_parity(tmp_path, RECORD)
    document = json.loads(path.read_text())
    document["pairs"][0]["stages"][0] |= {name: value for name, value in change.items() if name != "schema"}
    document |= {name: value for name, value in change.items() if name == "schema"}
    path.write_text(json.dumps(document))
    return read_parity(tmp_path)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    assert read_changed(tmp_path) == [RECORD]
    assert RECORD.holds


@pytest.mark.parametrize(
    "change",
    [
        {"measured": 7.0},
        {"measured": None},
        {"measured": "0.1"},
        {"failed": ["fc.bias"]},
        {"holds": False},
        {"holds": 1},
    ],
)
def test_a_file_that_contradicts_itself_does_not_hold(change: dict[str, Any], tmp_path: Path) -> None:
    [record] = read_changed(tmp_path, **change)
    assert not record.holds


def test_a_file_from_before_there_were_seeds_is_of_the_usual_one(tmp_path: Path) -> None:
    path = write_parity(tmp_path, RECORD)
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "seed"}))
    assert [record.seed for record in read_parity(tmp_path)] == [1]


@pytest.mark.parametrize("schema", [1, 3, None, "2"])
def test_a_file_of_another_schema_proves_nothing(schema: object, tmp_path: Path) -> None:
    assert read_changed(tmp_path, schema=schema) == []


def test_of_very_many_files_the_newest_are_read_whatever_the_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runfolder_parity, "_MAX_FILES", 2)
    for unix_s, workload in enumerate(["tsm", "tsm", "hrnet_w18"]):
        write_parity(tmp_path, replace(RECORD, workload=workload, unix_s=float(unix_s)))
    assert [record.workload for record in read_parity(tmp_path)] == ["hrnet_w18", "tsm"]


def test_where_nothing_was_compared_nothing_holds() -> None:
    empty = PairRecord(one=ONE, other=OTHER, stages=())
    record = ParityRecord(**{**vars(RECORD), "pairs": (empty,)})
    assert (empty.holds, record.holds) == (False, False)
    assert str(find_answer(record)).startswith("resnet50: torch and jax were not compared in any stage; choose")
    assert not ParityRecord(**{**vars(RECORD), "pairs": ()}).holds
