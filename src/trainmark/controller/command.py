"""From `run -- CMD ...` to the runs it asks for: any script, measured by what it prints or marks."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.controller.code_under_test import describe_code, without_names
from trainmark.controller.command_facts import add_facts
from trainmark.controller.execute import RunRequest, Task
from trainmark.controller.launching import choose_launcher, make_job
from trainmark.controller.listener import Listener
from trainmark.controller.observed_code import add_observed_code
from trainmark.controller.script import find_script
from trainmark.controller.workload import sweep_settings
from trainmark.errors import InputError
from trainmark.frameworks import frameworks
from trainmark.launch import local
from trainmark.launch.job import Job, Machines
from trainmark.launch.registry import launchers
from trainmark.plan.estimate import repeat
from trainmark.plan.identity import cell_id
from trainmark.plan.machine import Machine, read_machine
from trainmark.redaction import Redactor
from trainmark.runfolder.document import MeasureRecord, RunDocument
from trainmark.spec.cluster import CLUSTER_KEYS
from trainmark.spec.command import CommandCell, CommandSuite, parse_command
from trainmark.spec.suite import Measure
from trainmark.units import format_count

if TYPE_CHECKING:
    from trainmark.launch.command_source import CommandSource
    from trainmark.launch.supervise import Observer, Source
    from trainmark.logs.dialect import Dialect
    from trainmark.logs.record import Facts

_BATCH_FLAGS = ("--batch-size", "--batch_size", "--batchsize", "--bs", "-b", "--per-device-batch-size")


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    words: tuple[str, ...]
    """The command, with placeholders such as {batch_size}."""
    overrides: Mapping[str, Any]
    """Values from the command line, as TOML would hold them."""
    launcher: str = "auto"
    pattern: Path | None = None
    """TOML with regular expressions for the command's output; None: all known dialects."""
    redactor: Redactor = field(default_factory=Redactor)
    """Replaces passwords and tokens in what is written of the command."""
    observe: bool = True
    """Look for optimizer steps inside the Python processes of the command."""


def command_request(options: CommandOptions) -> RunRequest:
    machine = read_machine()
    is_scheduled = launchers().load(options.launcher).machines is Machines.SCHEDULER
    is_here = not is_scheduled and not options.overrides.keys() & (set(CLUSTER_KEYS) - {"image"})
    device = "cpu" if is_here and not machine.gpus else None
    suite = parse_command(options.words, options.overrides, device=device)
    suite = replace(suite, cells=tuple(_hide_secrets(cell, options.redactor) for cell in suite.cells))
    _check_program(suite.cells)
    dialects = _load_dialects(options.pattern)
    tasks = [
        _make_task(
            cell,
            suite,
            _choose_launcher(cell, options.launcher, suite, machine),
            machine,
            dialects,
            is_observing=options.observe,
        )
        for cell in suite.cells
    ]
    how = {} if options.observe else {"observe": False}
    return RunRequest(tasks=tasks, settings={**sweep_settings(machine), **_code_settings(options, suite), **how})


def _hide_secrets(cell: CommandCell, redactor: Redactor) -> CommandCell:
    shown = redactor.words(cell.template)
    return cell if shown == cell.template else replace(cell, shown=shown)


def _code_settings(options: CommandOptions, suite: CommandSuite) -> dict[str, Any]:
    """Edited code asks another question, and an edited pattern reads another answer: both start a new sweep."""
    cells = _one_per_script(suite.cells)
    described = (describe_code(cell.argv, cell.public_template, cwd=Path.cwd()) for cell in cells)
    pattern = options.pattern.read_bytes() if options.pattern is not None else b""
    return {
        "cwd": str(Path.cwd()),
        "code": [{**facts, "git": without_names(facts["git"])} for facts in described],
        "pattern": hashlib.sha256(pattern).hexdigest() if pattern else None,
    }


def _one_per_script(cells: Sequence[CommandCell]) -> list[CommandCell]:
    """Almost always one: a placeholder is seldom part of the script's name."""
    found = {find_script(cell.argv, cwd=Path.cwd(), environment=os.environ).path: cell for cell in cells}
    return list(found.values())


def _check_program(cells: Sequence[CommandCell]) -> None:
    """Before the first process starts."""
    for program in dict.fromkeys(cell.argv[0] for cell in cells):
        if shutil.which(program) is None:
            hint = "commands run without a shell: pass a program and its arguments; a pipeline needs sh -c '...'"
            raise InputError(f"program not found: {program}", hint=hint)


def _choose_launcher(cell: CommandCell, name: str, suite: CommandSuite, machine: Machine) -> str:
    """A command that gets the number of devices starts its own processes; others get one for each device."""
    asked = launchers().load(name)
    is_here = asked.is_direct or (asked.build_commands is None and asked.machines is Machines.HOSTS)
    if cell.starts_its_own_processes and is_here:
        if cell.nodes > 1 or suite.cluster.hosts:
            hint = "leave {devices} out and let --launcher start the processes, or leave out --nodes and --hosts"
            raise InputError("a command with {devices} starts its own processes, on this machine only", hint=hint)
        return local.LAUNCHER.name
    chosen = choose_launcher(name, cell, suite.cluster, framework=None)
    if chosen.frameworks is not None and not set(chosen.frameworks) & machine.frameworks.keys():
        missing = frameworks().load(chosen.frameworks[0]).requirement()
        hint = f"put {{devices}} where the script takes it, or pip install {missing}"
        why = f"it would start {format_count(cell.devices_per_node, 'processes')}"
        raise InputError(f"{chosen.name} is not installed", why=why, hint=hint)
    return chosen.name


def _load_dialects(pattern: Path | None) -> Sequence[Dialect]:
    from trainmark.logs.pattern import load_pattern
    from trainmark.logs.registry import load_dialects

    return load_dialects() if pattern is None else (load_pattern(pattern),)


def _make_task(
    cell: CommandCell,
    suite: CommandSuite,
    launcher: str,
    machine: Machine,
    dialects: Sequence[Dialect],
    *,
    is_observing: bool,
) -> Task:
    current: CommandSource | None = None
    """Of the current attempt: each reads its own output from the beginning."""

    def job(run_id: str, folder: Path) -> Job:
        each = launchers().load(launcher).max_processes or cell.devices_per_node
        made = make_job(cell, run_id, folder, cluster=suite.cluster, argv=cell.argv, processes_per_node=each)
        return replace(made, is_observed=is_observing)

    def watch(listener: Listener) -> Observer:
        from trainmark.controller.stopping_watch import StoppingWatch

        def unit() -> str:
            return current.unit if current is not None else "samples"

        return StoppingWatch(Measure(), listener, unit=unit, may_stop=False, has_phases=False)

    def source(folder: Path) -> Source:
        from trainmark.launch.command_source import CommandSource
        from trainmark.logs.live import LiveLog

        nonlocal current
        log = LiveLog(dialects, _given_facts(cell))
        _write_environment(folder, cell, machine, suite.cluster.image)

        def finish() -> None:
            add_facts(folder, log, is_observing=is_observing)
            if is_observing:
                add_observed_code(folder)

        current = CommandSource(folder, log, finish=finish)
        return current

    return Task(
        cell=cell,
        document=RunDocument(
            cell=cell.record,
            cell_id=cell_id(cell),
            source="command",
            model=cell.text,
            measure=MeasureRecord(hang_least_s=suite.hang_least_s, hang_factor=suite.hang_factor),
            image=suite.cluster.image,
        ),
        launcher=launcher,
        timeout_s=suite.timeout_s,
        job=job,
        watch=watch,
        source=source,
        duration=lambda past: repeat(cell_id(cell), past),
    )


def _given_facts(cell: CommandCell) -> Facts:
    """From the options beside the command, and the batch size from the command itself where it is unambiguous."""
    from trainmark.logs.record import Facts

    batch = cell.batch_size_per_device
    if batch is None and cell.devices_per_node == 1:
        batch = _find_batch_size(cell.argv)
    return Facts(
        nodes=cell.nodes,
        devices_per_node=cell.devices_per_node,
        devices=cell.nodes * cell.devices_per_node,
        batch_size_per_device=batch,
        precision=cell.precision,
    )


def _find_batch_size(argv: Sequence[str]) -> int | None:
    words = [part for word in argv for part in (word.split("=", 1) if word.startswith("-") else [word])]
    found = {value for flag, value in itertools.pairwise(words) if flag in _BATCH_FLAGS and value.isdigit()}
    return int(found.pop()) if len(found) == 1 else None


# -- env.json ----------------------------------------------------------------------------------------------------------


def _write_environment(folder: Path, cell: CommandCell, machine: Machine, image: str | None) -> None:
    """The facts of the machine as for a workload, but the code and the packages that the command runs.

    Found again for each run: the code may be edited while a sweep goes on.
    """
    from trainmark.worker.environment import describe_environment, write_environment

    facts = {
        "device_name": machine.gpus[0].name if machine.gpus else None,
        **describe_code(cell.argv, cell.public_template, cwd=Path.cwd()),
    }
    document = describe_environment(facts, gpu_index=0 if machine.gpus else None, image=image)
    write_environment(folder, document)
