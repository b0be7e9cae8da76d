"""`trainmark run -- CMD ...`: any script, measured by what it prints or marks."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.cli.specify import read_flags
from trainmark.controller.command_environment import write_environment
from trainmark.controller.execute import Task
from trainmark.controller.launching import choose_launcher, make_job
from trainmark.errors import InputError
from trainmark.launch import local
from trainmark.launch.job import Job, Machines
from trainmark.launch.registry import launchers
from trainmark.runfolder.files import RUN_FILE, read_json, write_json
from trainmark.runfolder.records import Kind, read_records
from trainmark.spec.command import CommandCell, CommandSuite, parse_command
from trainmark.spec.suite import Measure
from trainmark.units import format_count

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


def command_tasks(args: argparse.Namespace, machine: Machine) -> list[Task]:
    if args.what is not None:
        why = f"{args.what!r} stands before --"
        raise InputError("a workload and a command cannot be run at once", why=why, hint="leave one of them out")
    if args.find_batch:
        raise InputError("--find-batch goes with a workload", hint="give the command's own --batch-size A,B")
    if args.resume:
        why = "a command has no checkpoint of ours, and a sweep goes on by itself"
        raise InputError("--resume goes with a workload", why=why, hint="leave it out, or give the script its own flag")
    is_here = not args.hosts and not args.cluster and launchers().load(args.launcher).machines is not Machines.SCHEDULER
    suite = parse_command(args.command, read_flags(args), device="cpu" if is_here and not machine.gpus else None)
    _check_program(suite.cells)
    dialects = _load_dialects(args.pattern)
    chosen = [_launcher(cell, args.launcher, suite, machine) for cell in suite.cells]
    pairs = zip(suite.cells, chosen, strict=True)
    return [_make_task(cell, suite, launcher, machine, dialects) for cell, launcher in pairs]


def command_settings(args: argparse.Namespace) -> dict[str, Any]:
    """What a command is told beside its words: an edited script is another question, a pattern reads another answer."""
    files = [Path(word) for word in args.command if word.endswith((".py", ".sh")) and Path(word).is_file()]
    files += [] if args.pattern is None else [Path(args.pattern)]
    return {"cwd": str(Path.cwd()), "files": {str(path): _digest(path) for path in files}}


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None  # whoever runs it will say what is wrong


def _check_program(cells: Sequence[CommandCell]) -> None:
    """Before the first process starts: a word that is no program is found now."""
    for program in dict.fromkeys(cell.argv[0] for cell in cells):
        if shutil.which(program) is None:
            hint = "commands run without a shell: give a program, then its arguments; a pipeline needs sh -c '...'"
            raise InputError(f"there is no program {program!r}", hint=hint)


def _launcher(cell: CommandCell, name: str, suite: CommandSuite, machine: Machine) -> str:
    """A command that is told the number of devices starts its own processes; others get one for each device."""
    asked = launchers().load(name)
    is_here = asked.is_direct or (asked.build_commands is None and asked.machines is Machines.HOSTS)
    if cell.starts_its_own_processes and is_here:
        if cell.nodes > 1 or suite.cluster.hosts:
            hint = "leave {devices} out and let --launcher start the processes, or leave out --nodes and --hosts"
            raise InputError("a command with {devices} starts its own processes, and only here", hint=hint)
        return local.LAUNCHER.name
    chosen = choose_launcher(name, cell, suite.cluster, framework=None)
    if chosen.frameworks is not None and not set(chosen.frameworks) & machine.frameworks.keys():
        hint = f"put {{devices}} where the script takes it, or pip install 'trainmark[{chosen.frameworks[0]}]'"
        why = f"it would start {format_count(cell.devices_per_node, 'processes')}"
        raise InputError(f"{chosen.name} is not here", why=why, hint=hint)
    return chosen.name


def _load_dialects(pattern: str | None) -> Sequence[Dialect]:
    from trainmark.logs.pattern import load_pattern
    from trainmark.logs.registry import load_dialects

    return load_dialects() if pattern is None else (load_pattern(Path(pattern)),)


def _make_task(
    cell: CommandCell, suite: CommandSuite, launcher: str, machine: Machine, dialects: Sequence[Dialect]
) -> Task:
    log: LiveLog | None = None
    """Of the attempt that goes on: each reads its own output from the beginning."""

    def job(run_id: str, folder: Path) -> Job:
        each = launchers().load(launcher).max_processes or cell.devices_per_node
        return make_job(cell, run_id, folder, cluster=suite.cluster, argv=cell.argv, processes_per_node=each)

    def watch(progress: Progress) -> Observer:
        from trainmark.cli.progress import RunWatch

        return RunWatch(progress, Measure(), lambda: log.unit if log is not None else "samples", may_stop=False)

    def source(folder: Path) -> Source:
        from trainmark.launch.command_source import CommandSource
        from trainmark.logs.live import LiveLog

        nonlocal log
        log = reader = LiveLog(dialects, _given(cell))
        write_environment(folder, cell.argv[0], machine)
        return CommandSource(folder, reader, finish=lambda: _add_facts(folder, reader))

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
        timeout_s=suite.timeout_s,
        job=job,
        watch=watch,
        source=source,
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


def _add_facts(folder: Path, log: LiveLog) -> None:
    """What the output told of the run goes into run.json, where nobody had said it."""
    run = read_json(folder / RUN_FILE)
    if run is None:
        return
    files = sorted(folder.glob("rank*.jsonl"))
    marks = (record for path in files for record in read_records(path))
    is_marked = any(record["kind"] == Kind.STEP and record.get("samples") for record in marks)
    known = log.facts.known()
    for name in ("framework", "precision", "batch_size_per_device"):
        if run["cell"].get(name) is None:
            run["cell"][name] = known.get(name)
    run |= {"dialect": "mark" if is_marked else log.dialect, "unit": "samples" if is_marked else log.unit}
    run["log"] = {"stated": log.stated}
    write_json(folder / RUN_FILE, run)
