"""What is left of a sweep is learned from the store and from each run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from making import make_run
from trainmark.controller.outlook import Outlook, read_past
from trainmark.controller.workload import SpecOptions, make_plan, workload_request
from trainmark.plan.estimate import repeat
from trainmark.store.index import Store


def test_only_finished_runs_tell_how_long_runs_take(tmp_path: Path) -> None:
    assert read_past(Store(tmp_path / "none")) == []
    store = Store(tmp_path)
    row = store.index(make_run(tmp_path, "a"))
    store.index(make_run(tmp_path, "b", outcome="failed"))
    assert row is not None
    assert [(past.cell_id, past.wall_s) for past in read_past(store)] == [(row.cell_id, 12.0)]


def test_each_run_makes_the_outlook_better(tmp_path: Path) -> None:
    options: dict[str, Any] = {"size": ["small"], "device": "cpu", "repeat": 3}
    plan = make_plan(SpecOptions(what="resnet50", overrides=options, launcher="auto"))
    tasks = workload_request(plan).tasks
    outlook = Outlook([])
    before, after_one = outlook.left(tasks), outlook.left(tasks[1:])
    assert before is not None
    assert after_one is not None
    assert after_one.high_s < before.high_s
    assert not before.is_learned
    row = Store(tmp_path).index(make_run(tmp_path, "a", cell=plan.cells[0]))
    assert row is not None
    outlook.add(row)
    learned = outlook.left(tasks[1:])
    assert learned is not None
    assert learned.is_learned


def test_a_command_takes_what_it_took(tmp_path: Path) -> None:
    row = Store(tmp_path).index(make_run(tmp_path, "a"))
    assert row is not None
    past = read_past(Store(tmp_path))
    found = repeat(row.cell_id, past)
    assert found is not None
    assert found.low_s < 12.0 < found.high_s
    assert repeat("another", past) is None
