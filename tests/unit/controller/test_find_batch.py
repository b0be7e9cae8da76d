"""The search with real runs of a worker that knows no framework: it fits up to a batch of 11."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from listening import KeepingListener
from making import make_cell
from trainmark.controller.execute import RunRequest, SweepOptions, Task, run_sweep
from trainmark.controller.find_batch import find_batches
from trainmark.controller.outlook import read_past
from trainmark.errors import RunError
from trainmark.launch.job import Job
from trainmark.plan.identity import cell_id
from trainmark.runfolder.document import MeasureRecord, RunDocument
from trainmark.spec.cell import Cell
from trainmark.store.index import Store

WORKER = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
run = json.loads((folder / "run.json").read_text())
batch = run["cell"]["batch_size_per_device"]
outcome = sys.argv[2] if batch > 11 else "ok"
steps = [{"kind": "step", "step": n, "seconds": 0.1, "samples": batch} for n in range(run["measure"]["max_steps"])]
end = {"kind": "run_end", "outcome": outcome, "reason": "no memory"}
text = "".join(json.dumps(record) + "\\n" for record in [*(steps if outcome == "ok" else []), end])
(folder / "rank0.jsonl").write_text(text)
sys.exit(outcome != "ok")
"""


def make_task(cell: Cell, *, outcome: str = "oom") -> Task:
    def job(run_id: str, folder: Path) -> Job:
        argv = (sys.executable, "-c", WORKER, str(folder), outcome)
        return Job(run_id=run_id, folder=folder, python="", processes_per_node=1, num_cores=0, argv=argv)

    measure = MeasureRecord(max_steps=40, max_seconds=60.0)
    document = RunDocument(cell=cell.record, cell_id=cell_id(cell), unit="images", measure=measure)
    return Task(cell=cell, document=document, launcher="local", timeout_s=20, job=job, watch=lambda _: lambda _: None)


def find(
    root: Path, cells: list[Cell], make: Callable[[Cell], Task] = make_task, most: int | None = None
) -> tuple[list[Task], list[str]]:
    """The tasks, and what was said."""
    listener = KeepingListener()
    tasks = find_batches(cells, make, max_batch=lambda _: most, store=Store(root), listener=listener)
    return tasks, listener.said


def test_probes_are_kept_but_shown_nowhere(tmp_path: Path) -> None:
    cells = [make_cell(batch_size_per_device=4, repeat=repeat) for repeat in (1, 2)]
    tasks, said = find(tmp_path, cells)
    assert [(task.cell.repeat, task.cell.to_json()["batch_size_per_device"]) for task in tasks] == [(1, 11), (2, 11)]
    assert said[-1].endswith("largest batch that fits: 11 (12 does not)")
    search = tasks[0].document.find_batch
    assert search is not None
    tries = search["tries"]
    assert [(each["batch_size"], each["outcome"]) for each in tries] == [
        (4, "ok"), (8, "ok"), (16, "oom"), (12, "oom"), (10, "ok"), (11, "ok"),
    ]  # fmt: skip
    probe = json.loads((tmp_path / tries[0]["run"] / "run.json").read_text())
    assert (probe["purpose"], probe["measure"]["max_steps"]) == ("find-batch", 3)
    assert probe["memory_limit_bytes"] > 1 << 20, "on a CPU the kernel must not have to end processes"
    assert Store(tmp_path).rows() == []
    request = RunRequest(tasks=tasks, settings={})
    result = run_sweep(request, Store(tmp_path), SweepOptions(command_line="t", retries=0), KeepingListener())
    assert (result.num_done, result.num_runs, result.interrupt) == (2, 2, None)
    rows = Store(tmp_path).rows()
    assert [(row.batch_size_per_device, row.outcome) for row in rows] == [(11, "ok"), (11, "ok")]
    assert {past.cell_id for past in read_past(Store(tmp_path))} == {rows[0].cell_id}


def test_a_data_set_limits_the_search(tmp_path: Path) -> None:
    (task,), said = find(tmp_path, [make_cell()], most=6)
    assert task.cell.to_json()["batch_size_per_device"] == 6
    assert said[-1].endswith("largest batch that fits: 6 (the limit is 6)")


def test_another_failure_ends_the_search(tmp_path: Path) -> None:
    def failing(cell: Cell) -> Task:
        return make_task(cell, outcome="failed")

    with pytest.raises(RunError, match="failed at batch 16: failed"):
        find(tmp_path, [make_cell(batch_size_per_device=16)], failing)
