"""`trainmark run`: the data flow from spec to result, once for each cell."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trainmark
from trainmark.cli.output import talk
from trainmark.cli.specify import Plan, add_spec_arguments, make_plan
from trainmark.controller.execute import Task, execute
from trainmark.controller.find_batch import add_find_batch_argument, find_batches
from trainmark.controller.launching import choose_launcher, make_job
from trainmark.controller.memory_limit import memory_limit
from trainmark.controller.preflight import check_machines
from trainmark.controller.run_command import add_command_arguments, command_settings, command_tasks
from trainmark.errors import DataError, InputError
from trainmark.launch.job import Job
from trainmark.launch.registry import launchers
from trainmark.plan.machine import Machine, read_machine
from trainmark.plan.sweep import machine_facts
from trainmark.spec.cell import Cell
from trainmark.units import format_count
from trainmark.workloads.registry import load_card
from trainmark.workloads.schedules import evaluation_interval

if TYPE_CHECKING:
    from trainmark.cli.progress import Progress
    from trainmark.launch.supervise import Observer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec_arguments(parser, is_optional=True)
    add_command_arguments(parser)
    parser.add_argument(
        "--no-preflight", action="store_true", help="do not ask the machines of --hosts or an allocation first"
    )
    parser.add_argument("--fresh", action="store_true", help="begin anew instead of continuing the sweep of before")
    parser.add_argument(
        "--retries",
        type=_count,
        default=1,
        metavar="N",
        help="try a run again that hung, was killed or lost a connection (default: 1)",
    )
    add_find_batch_argument(parser)
    parser.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint of the same training that was cut short"
    )


def run(args: argparse.Namespace) -> int:
    if args.command is not None:
        machine = read_machine()
        tasks = command_tasks(args, machine)
        _check_machines(tasks, args)
        return execute(tasks, args, settings={**sweep_settings(machine), **command_settings(args)})
    plan = _read_plan(args)
    if args.resume and not any(cell.is_training for cell in plan.cells):
        why = "nothing here trains: a measurement has no checkpoint, and a sweep goes on by itself"
        raise InputError(
            "--resume has nothing to go on from", why=why, hint="give --epochs or --until-target as before"
        )
    cells = _runnable(plan, is_elsewhere=launchers().load(args.launcher).has_own_files)
    tasks = workload_tasks(plan, cells, launcher=args.launcher)
    _check_machines(tasks, args)
    if args.find_batch:
        tasks = find_batches(
            cells, lambda cell: workload_tasks(plan, [cell], launcher=args.launcher)[0], _most_batch, args
        )
    return execute(tasks, args, settings=sweep_settings(plan.machine), skipped=plan.skipped)


def _check_machines(tasks: Sequence[Task], args: argparse.Namespace) -> None:
    if not args.no_preflight and launchers().load(args.launcher).prints is None:
        check_machines(tasks, Path(args.store))


def _read_plan(args: argparse.Namespace) -> Plan:
    if args.pattern is not None:
        raise InputError("--pattern goes with a command", hint="trainmark run --pattern FILE.toml -- CMD ...")
    if args.what is None:
        raise InputError("nothing to run", hint="trainmark run quick, or trainmark run -- python train.py")
    return make_plan(args)


def workload_tasks(plan: Plan, cells: Sequence[Cell], *, launcher: str) -> list[Task]:
    return [
        _make_task(cell, plan, choose_launcher(launcher, cell, plan.suite.cluster, framework=cell.framework).name)
        for cell in cells
    ]


def sweep_settings(machine: Machine) -> dict[str, Any]:
    """A sweep goes on only where hardware and software are those it began with."""
    return {"machine": machine_facts(machine), "trainmark": trainmark.__version__}


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 to 100")
    return int(text)


def _runnable(plan: Plan, *, is_elsewhere: bool) -> list[Cell]:
    """What can run here; an error if nothing can, so that a sweep that does nothing never looks like a success."""
    for reason in dict.fromkeys(plan.skipped.values()):
        num = sum(other == reason for other in plan.skipped.values())
        talk(f"skipping {num} of {format_count(len(plan.cells), 'runs')}: {reason.english}")
    cells = plan.runnable
    if not cells:
        reason = next(iter(plan.skipped.values()))
        what, _, hint = reason.english.partition("; ")
        raise InputError("nothing can run on this machine", why=what, hint=hint)
    if not is_elsewhere:
        check_data(cells)
    return cells


def check_data(cells: Iterable[Cell]) -> None:
    """Before the first process starts: a data set that cannot be used is found now."""
    for data in dict.fromkeys((cell.workload, cell.data.path, cell.global_batch_size) for cell in cells):
        _check_one(*data)


def _most_batch(cell: Cell) -> int | None:
    """The largest batch for each device that a data set has samples for; None where samples are made."""
    if cell.data.path is None:
        return None
    from trainmark.datasets.formats import find_format

    return find_format(load_card(cell.workload).dataset).summarise(Path(cell.data.path)).num_train // cell.num_devices


def _check_one(workload: str, path: str | None, global_batch_size: int) -> None:
    if path is None:
        return
    from trainmark.datasets.formats import find_format

    card = load_card(workload)
    num_samples = find_format(card.dataset).summarise(Path(path)).num_train
    if num_samples < global_batch_size:
        why = f"{format_count(num_samples, f'training {card.unit}')}, a global batch of {global_batch_size}"
        hint = f"use a smaller --batch-size or more {card.unit}"
        raise DataError(f"{path} is smaller than one batch", why=why, hint=hint)


def _make_task(cell: Cell, plan: Plan, launcher: str) -> Task:
    card, measure = load_card(cell.workload), plan.suite.measure

    def job(run_id: str, folder: Path) -> Job:
        num_cores = plan.machine.num_cores if cell.device == "cpu" else 0
        return make_job(cell, run_id, folder, cluster=plan.suite.cluster, num_cores=num_cores)

    def watch(progress: Progress) -> Observer:
        from trainmark.cli.progress import RunWatch

        return RunWatch(progress, measure, lambda: card.unit, may_stop=not cell.is_training)

    facts: dict[str, Any] = {
        "suite": plan.suite.name,
        "measure": asdict(measure),
        "unit": card.unit,
        "model": card.title,
    }
    facts |= memory_limit()
    if cell.epochs is not None:
        facts["eval_every"] = evaluation_interval(card.schedule, epochs=cell.epochs)
    limit_s = measure.limit_s(is_training=cell.is_training)
    return Task(cell=cell, facts=facts, launcher=launcher, timeout_s=limit_s, job=job, watch=watch)
