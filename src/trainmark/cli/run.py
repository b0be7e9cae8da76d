"""`trainmark run`: the data flow from spec to result, once for each cell."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark import records
from trainmark.cli.execute import Task, execute
from trainmark.cli.find_batch import add_find_batch_argument, find_batches
from trainmark.cli.memory_limit import memory_limit
from trainmark.cli.output import talk
from trainmark.cli.run_command import add_command_arguments, command_tasks
from trainmark.cli.specify import Plan, add_spec_arguments, make_plan
from trainmark.errors import DataError, InputError
from trainmark.launch.job import Job
from trainmark.launch.registry import CHOICES, choose
from trainmark.plan.identity import cell_id
from trainmark.spec.cell import Cell
from trainmark.workloads.registry import load_card
from trainmark.workloads.schedules import evaluation_interval

if TYPE_CHECKING:
    from trainmark.cli.progress import Progress
    from trainmark.launch.supervise import Observer

NAME = "run"
SUMMARY = "measure: a workload, a shipped suite, a suite file, or (after --) any command"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec_arguments(parser, is_optional=True)
    add_command_arguments(parser)
    parser.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint of the same training that was cut short"
    )
    add_find_batch_argument(parser)
    parser.add_argument(
        "--launcher", choices=CHOICES, default="auto", help="how processes start; dry prints the command"
    )


def run(args: argparse.Namespace) -> int:
    tasks = _workload_tasks(args) if args.command is None else command_tasks(args)
    return execute(tasks, args)


def _workload_tasks(args: argparse.Namespace) -> list[Task]:
    if args.pattern is not None:
        raise InputError("--pattern goes with a command", hint="trainmark run --pattern FILE.toml -- CMD ...")
    if args.what is None:
        raise InputError("nothing to run", hint="trainmark run quick, or trainmark run -- python train.py")
    plan = make_plan(args)
    cells = _runnable(plan)

    def make_task(cell: Cell) -> Task:
        return _make_task(cell, plan, choose(args.launcher, num_processes=cell.devices_per_node))

    tasks = find_batches(cells, make_task, _most_batch, args) if args.find_batch else [make_task(c) for c in cells]
    return [_resumed(task, Path(args.store)) for task in tasks] if args.resume else tasks


def _resumed(task: Task, root: Path) -> Task:
    from trainmark.store.index import Store

    store = Store(root)
    store.sync()
    found = [row for row in store.rows() if row.cell_id == cell_id(task.cell) and row.repeat == task.cell.repeat]
    cut_short = [row.id for row in found if row.outcome not in (None, "ok")]
    with_checkpoint = [run_id for run_id in cut_short if (root / run_id / records.CHECKPOINT_FILE).is_file()]
    if not with_checkpoint:
        talk(f"{task.cell.title}: no checkpoint of it in {root}; it starts from the beginning")
        return task
    talk(f"{task.cell.title}: goes on from {max(with_checkpoint)}")
    return replace(task, facts={**task.facts, "resumed_from": max(with_checkpoint)})


def _runnable(plan: Plan) -> list[Cell]:
    """What can run here; an error if nothing can, so that a sweep that does nothing never looks like a success."""
    for reason in dict.fromkeys(plan.skipped.values()):
        num = sum(other == reason for other in plan.skipped.values())
        talk(f"skipping {num} of {len(plan.cells)} runs: {reason}")
    cells = [cell for cell in plan.cells if cell not in plan.skipped]
    if not cells:
        reason = next(iter(plan.skipped.values()))
        what, _, hint = reason.partition("; ")
        raise InputError("nothing can run on this machine", why=what, hint=hint)
    for data in dict.fromkeys((cell.workload, cell.data.path, cell.global_batch_size) for cell in cells):
        _check_data(*data)
    return cells


def _most_batch(cell: Cell) -> int | None:
    """The largest batch for each device that a data set has samples for; None where samples are made."""
    if cell.data.path is None:
        return None
    from trainmark.datasets.formats import find_format

    return find_format(load_card(cell.workload).dataset).summarise(Path(cell.data.path)).num_train // cell.num_devices


def _check_data(workload: str, path: str | None, global_batch_size: int) -> None:
    """Before the first process starts: a data set that cannot be used is found now."""
    if path is None:
        return
    from trainmark.datasets.formats import find_format

    card = load_card(workload)
    num_samples = find_format(card.dataset).summarise(Path(path)).num_train
    if num_samples < global_batch_size:
        why = f"{num_samples} training {card.unit}, a global batch of {global_batch_size}"
        hint = f"use a smaller --batch-size or more {card.unit}"
        raise DataError(f"{path} is smaller than one batch", why=why, hint=hint)


def _make_task(cell: Cell, plan: Plan, launcher: str) -> Task:
    card, measure = load_card(cell.workload), plan.suite.measure

    def job(run_id: str, folder: Path) -> Job:
        return Job(
            run_id=run_id,
            folder=folder.resolve(),
            python=sys.executable,
            num_processes=cell.devices_per_node,
            num_cores=plan.machine.num_cores if cell.device == "cpu" else 0,
        )

    def watch(progress: Progress) -> Observer:
        from trainmark.cli.progress import RunWatch

        return RunWatch(progress, measure, lambda: card.unit, may_stop=cell.epochs is None)

    facts: dict[str, Any] = {
        "suite": plan.suite.name,
        "measure": asdict(measure),
        "unit": card.unit,
        "model": card.title,
    }
    facts |= memory_limit()
    if cell.epochs is not None:
        facts["eval_every"] = evaluation_interval(card.schedule, epochs=cell.epochs)
    return Task(cell=cell, facts=facts, launcher=launcher, timeout_s=measure.timeout_s, job=job, watch=watch)
