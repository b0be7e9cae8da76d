"""The search with real runs of a worker that knows no framework: it fits up to a batch of 11."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from making import make_cell
from trainmark.controller.execute import Task, execute
from trainmark.controller.find_batch import find_batches
from trainmark.errors import InputError, RunError
from trainmark.launch.job import Job
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

    facts = {"unit": "images", "measure": {"max_steps": 40}}
    return Task(cell=cell, facts=facts, launcher="local", timeout_s=20, job=job, watch=lambda _: lambda _: None)


def arguments(store: Path, launcher: str = "auto") -> argparse.Namespace:
    facts = {"json": True, "fresh": False, "resume": False, "retries": 0, "words": ["run", "resnet50"]}
    return argparse.Namespace(store=str(store), launcher=launcher, **facts)


def test_probes_are_kept_but_shown_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [make_cell(batch_size_per_device=4, repeat=repeat) for repeat in (1, 2)]
    tasks = find_batches(cells, make_task, lambda _: None, arguments(tmp_path))
    assert [(task.cell.repeat, task.cell.to_json()["batch_size_per_device"]) for task in tasks] == [(1, 11), (2, 11)]
    assert "largest batch that fits: 11 (12 does not)" in capsys.readouterr().err
    tries = tasks[0].facts["find_batch"]["tries"]
    assert [(each["batch_size"], each["outcome"]) for each in tries] == [
        (4, "ok"), (8, "ok"), (16, "oom"), (12, "oom"), (10, "ok"), (11, "ok"),
    ]  # fmt: skip
    probe = json.loads((tmp_path / tries[0]["run"] / "run.json").read_text())
    assert (probe["purpose"], probe["measure"]["max_steps"]) == ("find-batch", 3)
    assert probe["memory_limit_bytes"] > 1 << 20, "on a CPU the kernel must not have to end processes"
    assert Store(tmp_path).rows() == []
    assert execute(tasks, arguments(tmp_path), settings={}) == 0
    rows = Store(tmp_path).rows()
    assert [(row.batch_size_per_device, row.outcome) for row in rows] == [(11, "ok"), (11, "ok")]
    assert Store(tmp_path).wall_seconds().keys() == {rows[0].cell_id}


def test_a_data_set_limits_the_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task,) = find_batches([make_cell()], make_task, lambda _: 6, arguments(tmp_path))
    assert task.cell.to_json()["batch_size_per_device"] == 6
    assert "larger ones than 6 make no sense" in capsys.readouterr().err


def test_another_failure_ends_the_search(tmp_path: Path) -> None:
    def failing(cell: Cell) -> Task:
        return make_task(cell, outcome="failed")

    with pytest.raises(RunError, match="ended at batch 16: failed"):
        find_batches([make_cell(batch_size_per_device=16)], failing, lambda _: None, arguments(tmp_path))


def test_a_dry_search_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="real runs"):
        find_batches([make_cell()], make_task, lambda _: None, arguments(tmp_path, "dry"))
