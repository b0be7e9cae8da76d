"""`trainmark run -- CMD ...`: any script, measured by what it prints or marks."""

from __future__ import annotations

import argparse
import itertools
import math
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark import records
from trainmark.cli.command_environment import write_environment
from trainmark.cli.execute import Task
from trainmark.cli.specify import read_flags
from trainmark.errors import InputError
from trainmark.launch.job import Job
from trainmark.launch.registry import choose
from trainmark.records import Kind
from trainmark.spec.command import CommandCell, CommandSuite, parse_command
from trainmark.spec.suite import Measure

if TYPE_CHECKING:
    from trainmark.cli.progress import Progress
    from trainmark.launch.supervise import Observer, Source
    from trainmark.logs.dialect import Dialect
    from trainmark.logs.live import LiveLog
    from trainmark.logs.record import Facts
    from trainmark.plan.machine import Machine

_BATCH_FLAGS = ("--batch-size", "--batch_size", "--batchsize", "--bs", "-b", "--per-device-batch-size")


def add_command_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "command",
        metavar="-- CMD",
        nargs="*",
        help="a command; {devices} {batch_size} {precision} {seed} in it are filled in from the flags",
    )
    parser.add_argument("--pattern", metavar="FILE", help="TOML with regular expressions for the command's output")


def command_tasks(args: argparse.Namespace) -> list[Task]:
    if args.what is not None:
        why = f"{args.what!r} stands before --"
        raise InputError("a workload and a command cannot be run at once", why=why, hint="leave one of them out")
    if args.find_batch:
        raise InputError("--find-batch goes with a workload", hint="give the command's own --batch-size A,B")
    from trainmark.plan.machine import read_machine

    machine = read_machine()
    suite = parse_command(args.command, read_flags(args), device=None if machine.gpus else "cpu")
    _check_program(suite.cells)
    dialects = _load_dialects(args.pattern)
    return [_make_task(cell, suite, _launcher(cell, args.launcher, machine), machine, dialects) for cell in suite.cells]


def _check_program(cells: Sequence[CommandCell]) -> None:
    """Before the first process starts: a word that is no program is found now."""
    for program in dict.fromkeys(cell.argv[0] for cell in cells):
        if shutil.which(program) is None:
            hint = "commands run without a shell: give a program, then its arguments; a pipeline needs sh -c '...'"
            raise InputError(f"there is no program {program!r}", hint=hint)


def _launcher(cell: CommandCell, name: str, machine: Machine) -> str:
    """A command that is told the number of devices starts its own processes; others get one for each device."""
    if cell.starts_its_own_processes and name != "torchrun":
        return "local"
    chosen = choose(name, num_processes=cell.devices_per_node)
    if chosen == "torchrun" and "torch" not in machine.frameworks:
        hint = "put {devices} where the script takes it, or pip install 'trainmark[torch]'"
        raise InputError(f"{cell.devices_per_node} processes are started by torchrun, which is not here", hint=hint)
    return chosen


def _load_dialects(pattern: str | None) -> Sequence[Dialect]:
    from trainmark.logs.pattern import load_pattern
    from trainmark.logs.registry import load_dialects

    return load_dialects() if pattern is None else (load_pattern(Path(pattern)),)


def _make_task(
    cell: CommandCell, suite: CommandSuite, launcher: str, machine: Machine, dialects: Sequence[Dialect]
) -> Task:
    from trainmark.logs.live import LiveLog

    log = LiveLog(dialects, _given(cell))

    def job(run_id: str, folder: Path) -> Job:
        return Job(
            run_id=run_id,
            folder=folder.resolve(),
            python=sys.executable,
            num_processes=1 if launcher == "local" else cell.devices_per_node,
            num_cores=0,
            argv=cell.argv,
        )

    def watch(progress: Progress) -> Observer:
        from trainmark.cli.progress import RunWatch

        return RunWatch(progress, Measure(), lambda: log.unit, may_stop=False)

    def source(folder: Path) -> Source:
        from trainmark.launch.command_source import CommandSource

        write_environment(folder, cell.argv[0], machine)
        return CommandSource(folder, log)

    return Task(
        cell=cell,
        facts={
            "suite": None,
            "source": "command",
            "dialect": None,
            "unit": "samples",
            "model": cell.text,
            "measure": dict(suite.hang),
        },
        launcher=launcher,
        timeout_s=suite.timeout_s if suite.timeout_s is not None else math.inf,
        job=job,
        watch=watch,
        source=source,
        finish=lambda folder: _finish(folder, log),
    )


def _given(cell: CommandCell) -> Facts:
    """What was said beside the command, and the batch where it stands in the command itself and can mean one thing."""
    from trainmark.logs.record import Facts

    batch = cell.batch_size_per_device
    if batch is None and cell.devices_per_node == 1:
        batch = _batch_in(cell.argv)
    return Facts(
        nodes=cell.nodes,
        devices_per_node=cell.devices_per_node,
        devices=cell.nodes * cell.devices_per_node,
        batch_size_per_device=batch,
        precision=cell.precision,
    )


def _batch_in(argv: Sequence[str]) -> int | None:
    words = [part for word in argv for part in (word.split("=", 1) if word.startswith("-") else [word])]
    found = {value for flag, value in itertools.pairwise(words) if flag in _BATCH_FLAGS and value.isdigit()}
    return int(found.pop()) if len(found) == 1 else None


def _finish(folder: Path, log: LiveLog) -> None:
    """What the output told of the run goes into run.json, where nobody had said it."""
    run = records.read_json(folder / records.RUN_FILE)
    if run is None:
        return
    files = sorted(folder.glob("rank*.jsonl"))
    marks = (record for path in files for record in records.read_records(path))
    is_marked = any(record["kind"] == Kind.STEP and record.get("samples") for record in marks)
    known = log.facts.known()
    for name in ("framework", "precision", "batch_size_per_device"):
        if run["cell"].get(name) is None:
            run["cell"][name] = known.get(name)
    run |= {"dialect": "mark" if is_marked else log.dialect, "unit": "samples" if is_marked else log.unit}
    run["log"] = {"stated": log.stated}
    records.write_json(folder / records.RUN_FILE, run)
