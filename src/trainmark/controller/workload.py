"""From a workload or a suite to the runs it asks for: plan, tasks, and what is left to do of an unfinished sweep."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trainmark
from trainmark.controller.code_under_test import without_names
from trainmark.controller.execute import RunRequest, Task
from trainmark.controller.launching import choose_launcher, make_job, name_hosts, read_reach
from trainmark.controller.listener import Listener
from trainmark.controller.outlook import read_past
from trainmark.controller.start_weights import check_weights, identify_weights, weights_record
from trainmark.controller.sweep import SweepRuns, find_unfinished
from trainmark.errors import DataError, InputError
from trainmark.frameworks import frameworks
from trainmark.launch.job import Job, Prints
from trainmark.launch.registry import launchers
from trainmark.messages.message import Message
from trainmark.messages.skips import data_missing
from trainmark.plan.command import run_command
from trainmark.plan.estimate import Duration, estimate
from trainmark.plan.expand import expand
from trainmark.plan.feasible import why_not
from trainmark.plan.identity import cell_id
from trainmark.plan.machine import Machine, read_machine
from trainmark.plan.sweep import machine_facts
from trainmark.runfolder.document import MeasureRecord, RunDocument
from trainmark.spec.catalog import Catalog, Offer
from trainmark.spec.cell import Cell
from trainmark.spec.checking import suggest
from trainmark.spec.files import read_toml, shipped_suites
from trainmark.spec.parse import parse_suite
from trainmark.spec.suite import Suite
from trainmark.units import format_count, parse_bytes
from trainmark.worker.environment import own_git
from trainmark.workloads.card import Card
from trainmark.workloads.registry import load_card, load_cards, workloads
from trainmark.workloads.schedules import evaluation_interval

if TYPE_CHECKING:
    from trainmark.launch.supervise import Observer
    from trainmark.store.index import Store

MEMORY_LIMIT_VARIABLE = "TRAINMARK_MEMORY_LIMIT"
"""Bytes for each process, to try out a device with less memory than this one."""


@dataclass(frozen=True, kw_only=True)
class SpecOptions:
    what: str
    """A workload, a shipped suite, or a path that ends in .toml."""
    overrides: Mapping[str, Any]
    """Values from the command line, as TOML would hold them; they replace the same keys of the suite."""
    launcher: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Plan:
    suite: Suite
    machine: Machine
    launcher: str
    cells: tuple[Cell, ...]
    skipped: dict[Cell, Message]
    """Cells that cannot run here, each with the reason."""

    @property
    def runnable(self) -> list[Cell]:
        return [cell for cell in self.cells if cell not in self.skipped]


def make_plan(options: SpecOptions) -> Plan:
    catalog = read_catalog()
    suite = _read_suite(options.what, options.overrides, catalog)
    machine = read_machine()
    reach = read_reach(options.launcher, suite.cluster)
    is_dry = launchers().load(options.launcher).prints is Prints.COMMANDS
    is_ambiguous = reach.is_elsewhere and not is_dry
    if is_ambiguous and not machine.gpus and any(sweep.device is None for sweep in suite.sweeps):
        why = "this machine has no GPU, but the machines that do the work may have some"
        raise InputError("device type is ambiguous", why=why, hint="pass --device cuda or --device cpu")
    cells = expand(
        suite,
        catalog=catalog,
        device=machine.best_device,
        installed=machine.frameworks,
        for_cpus=() if reach.is_elsewhere else machine.frameworks_without_gpu,
    )
    for name in dict.fromkeys(cell.framework for cell in cells):
        frameworks().load(name)  # an unknown one, or one of a broken plugin, is an error
    if not launchers().load(options.launcher).has_own_files:
        cells = tuple(replace(cell, data=cell.data.from_here()) for cell in cells)
    elif any(cell.weights for cell in cells):
        why = f"the processes of --launcher {options.launcher} have files of their own"
        raise InputError("--weights is not possible", why=why, hint="run trainmark inside the container")
    cells = identify_weights(cells)
    skipped = {
        cell: reason for cell in cells if (reason := why_not(cell, machine, reach, catalog[cell.workload])) is not None
    }
    if options.what in shipped_suites() and "data" not in options.overrides and not is_dry:
        skipped |= {cell: reason for cell in cells if cell not in skipped and (reason := _missing_data(cell))}
    return Plan(suite=suite, machine=machine, launcher=options.launcher, cells=cells, skipped=skipped)


def _missing_data(cell: Cell) -> Message | None:
    """A shipped suite names data sets by where a report has them; most people keep theirs elsewhere."""
    path = cell.data.path
    return None if path is None or Path(path).exists() else data_missing(path=Path(path).name)


def read_catalog() -> Catalog:
    offers = {name: offer_of(card) for name, card in load_cards().items()}
    nothing = Offer(frameworks=(), recipes=(), sizes=(), batch_sizes={})
    broken = {plugin.name: replace(nothing, problem=str(plugin)) for plugin in workloads().broken()}
    return {**offers, **broken}


def offer_of(card: Card) -> Offer:
    return Offer(
        frameworks=card.frameworks,
        recipes=card.recipes,
        recipes_of=card.recipes_of,
        sizes=tuple(card.sizes),
        batch_sizes={size: facts.batch_size for size, facts in card.sizes.items()},
        targets=tuple((target.metric, target.value) for target in card.targets),
        epochs=math.ceil(card.schedule.epochs),
    )


def _read_suite(what: str, overrides: Mapping[str, Any], catalog: Catalog) -> Suite:
    shipped = shipped_suites()
    if what.endswith(".toml") or what in shipped:
        raw = read_toml(shipped.get(what, Path(what)))
    elif what in catalog:
        raw = {"name": what, "cells": [{"workload": what}]}
    else:
        hint = f"{suggest(what, (*catalog, *shipped))}; the name of your own suite must end in .toml"
        if what.endswith((".py", ".sh")):
            hint = "to measure a script: trainmark run -- python train.py"
        raise InputError(f"unknown workload or suite {what!r}", hint=hint)
    return parse_suite(raw, origin=what, catalog=catalog, overrides=overrides)


def workload_request(plan: Plan) -> RunRequest:
    """All that can run here."""
    settings = {**sweep_settings(plan.machine), "git": without_names(own_git())}
    return RunRequest(tasks=make_tasks(plan, plan.runnable), settings=settings, skipped=plan.skipped)


def with_largest_batches(request: RunRequest, plan: Plan, store: Store, listener: Listener) -> RunRequest:
    """The same runs with the largest batch that fits, which is searched first."""
    from trainmark.controller.find_batch import find_batches

    tasks = find_batches(
        plan.runnable,
        lambda cell: make_tasks(plan, [cell])[0],
        max_batch=_max_batch_size,
        store=store,
        listener=listener,
    )
    return replace(request, tasks=tasks)


def sweep_settings(machine: Machine) -> dict[str, Any]:
    """A sweep is continued only with the hardware and software it began with."""
    return {"machine": machine_facts(machine), "trainmark": trainmark.__version__}


def make_tasks(plan: Plan, cells: Iterable[Cell]) -> list[Task]:
    return [_make_task(cell, plan) for cell in cells]


def _cores_to_share(cell: Cell, machine: Machine) -> int:
    """Among the processes of a machine: each gets as many threads."""
    threads = frameworks().load(cell.framework).cpu_threads
    return machine.num_cores if threads is None else threads * cell.devices_per_node


def _make_task(cell: Cell, plan: Plan) -> Task:
    card, measure = load_card(cell.workload), plan.suite.measure
    cluster = name_hosts(plan.launcher, cell, plan.suite.cluster)
    launcher = choose_launcher(plan.launcher, cell, cluster, framework=cell.framework).name

    def job(run_id: str, folder: Path) -> Job:
        num_cores = _cores_to_share(cell, plan.machine) if cell.device == "cpu" else 0
        return make_job(cell, run_id, folder, cluster=cluster, num_cores=num_cores)

    def watch(listener: Listener) -> Observer:
        from trainmark.controller.stopping_watch import StoppingWatch

        return StoppingWatch(measure, listener, unit=lambda: card.unit, may_stop=not cell.is_training)

    document = RunDocument(
        cell=cell.record,
        cell_id=cell_id(cell),
        suite=plan.suite.name,
        unit=card.unit,
        model=card.title,
        workload_version=card.version,
        measure=MeasureRecord(**asdict(measure)),
        eval_every=None if cell.epochs is None else evaluation_interval(card.schedule, epochs=cell.epochs),
        memory_limit_bytes=memory_limit_bytes(),
        image=plan.suite.cluster.image,
        weights=weights_record(cell),
    )
    limit_s = measure.limit_s(is_training=cell.is_training)
    return Task(
        cell=cell,
        document=document,
        launcher=launcher,
        timeout_s=limit_s,
        job=job,
        watch=watch,
        duration=lambda past: estimate(cell, measure, past),
    )


def memory_limit_bytes() -> int | None:
    """For run.json, which takes it to the workers of every node and keeps it with the result."""
    text = os.environ.get(MEMORY_LIMIT_VARIABLE, "")
    if not text:
        return None
    num_bytes = parse_bytes(text)
    if not num_bytes:
        hint = "bytes for each process, such as 8000000000, 8GB or 8GiB; or unset it"
        raise InputError(f"{MEMORY_LIMIT_VARIABLE}: must be a number of bytes > 0, got {text!r}", hint=hint)
    return num_bytes


def cell_commands(plan: Plan) -> dict[str, list[str]]:
    """By the identity of a cell, which its repeats share: the command that measures this cell alone."""
    catalog = read_catalog()
    repeats: dict[str, int] = {}
    for cell in plan.cells:
        repeats[cell_id(cell)] = max(repeats.get(cell_id(cell), 1), cell.repeat)
    return {
        cell_id(cell): run_command(
            cell,
            offer=catalog[cell.workload],
            repeat=repeats[cell_id(cell)],
            has_data=_missing_data(cell) is None,
        )
        for cell in plan.cells
    }


def refuse_idle(plan: Plan, listener: Listener) -> None:
    """Names what is skipped; an error if that is everything, so that an empty sweep never looks like a success."""
    reasons = [reason.english for reason in plan.skipped.values()]
    for reason in dict.fromkeys(reasons):
        listener.say(f"skipping {reasons.count(reason)} of {format_count(len(plan.cells), 'runs')}: {reason}")
    if not plan.runnable:
        what, _, hint = reasons[0].partition("; ")
        raise InputError("nothing can run on this machine", why=what, hint=hint)


def check_data(plan: Plan) -> None:
    """Finds unusable data sets before the first process starts. Paths inside a container cannot be checked here.

    A dry run names data sets that other machines may have.
    """
    if not _has_files_here(plan):
        return
    cells = {(cell.workload, cell.data.path, cell.global_batch_size): cell for cell in plan.runnable}
    for cell in cells.values():
        num_samples = _num_train_samples(cell)
        if num_samples is not None and num_samples < cell.global_batch_size:
            unit = load_card(cell.workload).unit
            why = f"{format_count(num_samples, f'training {unit}')}, a global batch of {cell.global_batch_size}"
            hint = f"use a smaller --batch-size or more {unit}"
            raise DataError(f"{cell.data.path} has fewer {unit} than one batch", why=why, hint=hint)


def check_start(plan: Plan, say: Callable[[str], None]) -> None:
    """Finds a file of weights that does not fit before the first process starts, and says what of it is loaded."""
    if _has_files_here(plan):
        check_weights(plan.runnable, say)


def _has_files_here(plan: Plan) -> bool:
    launcher = launchers().load(plan.launcher)
    return not launcher.has_own_files and launcher.prints is not Prints.COMMANDS


def _max_batch_size(cell: Cell) -> int | None:
    """The largest batch per device that the data set has samples for; None if samples are generated."""
    num_samples = _num_train_samples(cell)
    return None if num_samples is None else num_samples // cell.num_devices


def _num_train_samples(cell: Cell) -> int | None:
    if cell.data.path is None:
        return None
    from trainmark.datasets.formats import find_format

    return find_format(load_card(cell.workload).dataset).summarise(Path(cell.data.path)).num_train


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    cell: Cell
    skip: Message | None
    """Why it cannot run here."""
    is_done: bool
    """By the unfinished sweep that `run` would continue."""
    duration: Duration | None
    """None: nobody knows."""


def preview(plan: Plan, store: Store) -> tuple[Sequence[PlannedRun], SweepRuns | None]:
    """What `run` would do, and the unfinished sweep it would continue. Creates nothing."""
    sweep, past = None, []
    if store.root.is_dir():
        sweep, past = find_unfinished(workload_request(plan).content, store), read_past(store)
    runs = [
        PlannedRun(
            cell=cell,
            skip=plan.skipped.get(cell),
            is_done=sweep is not None and sweep.answer(cell) is not None,
            duration=estimate(cell, plan.suite.measure, past),
        )
        for cell in plan.cells
    ]
    return runs, sweep
