"""Asks every machine of a run before its first step, and shows one table of what is wrong where."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from trainmark.cli.output import stderr_console, talk
from trainmark.cli.results import refuse_file
from trainmark.errors import InputError, StoreError
from trainmark.frameworks import frameworks
from trainmark.launch.job import Machines
from trainmark.launch.registry import launchers
from trainmark.units import format_count, plain

if TYPE_CHECKING:
    from trainmark.controller.execute import Task
    from trainmark.launch.job import Command, Job
    from trainmark.launch.preflight import Finding
    from trainmark.launch.processes import Root

_WAIT_S = 20.0
"""For the others to come."""
_LAST_S = 5.0
"""From the first end to the last."""


def check_machines(tasks: Sequence[Task], store: Path) -> None:
    """Once for each launcher, with its largest shape; an error where something is wrong that no run would survive."""
    largest: dict[str, Task] = {}
    for task in tasks:
        known = largest.get(task.launcher)
        if _is_worth_it(task) and (known is None or _size(task) > _size(known)):
            largest[task.launcher] = task
    for task in largest.values():
        data = {other.cell.data.path for other in tasks if hasattr(other.cell, "data")}
        _check(task, store, sorted(path for path in data if path))


def _size(task: Task) -> int:
    return task.cell.nodes * task.cell.devices_per_node


def _is_worth_it(task: Task) -> bool:
    """Where processes start on other machines. Not through a queue: that would be a second time to wait in it."""
    job = task.job("preflight", Path())
    if launchers().load(task.launcher).machines is Machines.SCHEDULER:
        return job.is_allocated
    return bool(job.hosts)


def _check(task: Task, store: Path, data: list[str]) -> None:
    from trainmark.launch.preflight import judge, num_expected, read_answers
    from trainmark.worker.preflight import hash_code

    run_id = f"preflight-{secrets.token_hex(4)}"
    folder = make_shared_folder(store, f".{run_id}.")
    try:
        job = task.job(run_id, folder)
        said = _ask(job, task, data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    answers = [answer for text in said.values() for answer in read_answers(text)]
    own_code = hash_code(Path(__file__).parents[1])
    expected = num_expected(job, task.launcher)
    findings = judge(answers, job=job, num_answers=expected, own_code=own_code, said=said)
    if findings:
        print_findings(findings)
    if any(finding.is_fatal for finding in findings):
        hint = "mend what the table names; --no-preflight starts all the same"
        raise InputError("the machines are not ready", why="see the table above", hint=hint)
    talk(f"preflight: {len(answers)} of {format_count(expected, 'processes')} answered")


def _ask(job: Job, task: Task, data: list[str]) -> dict[str, str]:
    from trainmark.launch.preflight import build_commands

    token = secrets.token_hex(8)
    (job.folder / token).touch()
    framework = getattr(task.cell, "framework", None)
    request = {
        "folder": str(job.folder),
        "token": token,
        "wait_s": _WAIT_S,
        "data": [str(Path(path).resolve()) for path in data],
        "package": frameworks().load(framework).distribution if framework else None,
        "device": job.device,
    }
    commands = build_commands(job, task.launcher, request)
    names = [host.name for host in job.hosts] if len(commands) == len(job.hosts) else [""]
    return _run_all(job, dict(zip(names, commands, strict=True)))


def _run_all(job: Job, commands: dict[str, Command]) -> dict[str, str]:
    """All of them to their ends, however the others end: a machine's answer is worth most where another is missing."""
    from trainmark.launch import processes

    roots, files = [], {}
    deadline = time.monotonic() + 3 * _WAIT_S
    try:
        for number, (name, command) in enumerate(commands.items()):
            for file_name, text in command.files.items():
                (job.folder / file_name).write_text(text, encoding="utf-8")
            files[name] = job.folder / f"output{number}"
            with files[name].open("wb") as output:
                roots.append(_start(command, output))
        while any(root.poll() is None for root in roots) and time.monotonic() < deadline:
            time.sleep(0.05)
            if any(root.poll() is not None for root in roots):  # the others answer now, or wait for one that is gone
                deadline = min(deadline, time.monotonic() + _LAST_S)
    finally:
        processes.end(job.run_id, roots)
    return {name: path.read_text(encoding="utf-8", errors="replace") for name, path in files.items()}


def _start(command: Command, output: IO[bytes]) -> Root:
    from trainmark.launch import processes

    try:
        return processes.start(command, output=output)
    except OSError as error:
        hint = "install it, or say in the cluster file how to reach the machines (remote_shell)"
        why = error.strerror or str(error)
        raise InputError(f"{command.argv[0]} could not be started", why=why, hint=hint) from error


def make_shared_folder(store: Path, prefix: str) -> Path:
    """In the store, which all machines of a run see."""
    refuse_file(store)
    try:
        store.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=prefix, dir=store)).resolve()
    except OSError as error:
        why = error.strerror or str(error)
        hint = "give another folder with --store DIR, or mend its permissions"
        raise StoreError(f"cannot write to the store {store}", why=why, hint=hint) from error


def print_findings(findings: Sequence[Finding]) -> None:
    from trainmark.report.layout import print_rows

    rows = []
    for finding in sorted(findings, key=lambda finding: not finding.is_fatal):
        what = finding.what if finding.is_fatal else f"(note) {finding.what}"
        rows.append([plain(text) for text in (finding.where, what, finding.hint)])
    print_rows(("where", "what is wrong", "what to do"), rows, stderr_console(), is_right=[False] * 3)
