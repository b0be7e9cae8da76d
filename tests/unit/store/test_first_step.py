"""The time to the first step: from the start of a run until its first step was done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from making import make_cell, make_run
from trainmark.runfolder.files import RUN_FILE, rank_file, read_json, write_json
from trainmark.store.folder import read_run


def first_step(folder: Path, lines: list[dict[str, Any]], **facts: Any) -> float | None:
    (folder / rank_file(0)).write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_json(folder / RUN_FILE, {**(read_json(folder / RUN_FILE) or {}), "created_unix_s": 100.0, **facts})
    row = read_run(folder)
    assert row is not None
    return row.first_step_s


STEP = {"kind": "step", "step": 1, "seconds": 0.5, "samples": 4}
START = {"kind": "run_start", "unix_s": 103.0}


def test_a_worker_states_it_with_its_first_step(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "run")
    assert first_step(folder, [START, {**STEP, "unix_s": 107.5}, {**STEP, "unix_s": 108.0}]) == 7.5


def test_the_first_mark_ends_the_first_step(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "run")
    assert first_step(folder, [START, {**STEP, "unix_s": 107.5}], source="command", dialect="mark") == 3.0


@pytest.mark.parametrize(
    ("facts", "unix_s"),
    [
        ({}, None),
        ({}, "soon"),
        ({}, 99.0),
        ({"resumed_from": "earlier"}, 107.5),
        ({"cell": make_cell(nodes=2).to_json()}, 107.5),
    ],
    ids=["not stated", "not a number", "before the start", "resumed", "two machines, two clocks"],
)
def test_it_is_unknown(tmp_path: Path, facts: dict[str, Any], unix_s: object) -> None:
    folder = make_run(tmp_path, "run")
    assert first_step(folder, [{**STEP, "unix_s": unix_s}], **facts) is None
