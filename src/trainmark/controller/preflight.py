"""Asks every machine of a run what it has before anything starts, and refuses to start if a run cannot succeed."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from trainmark.controller.listener import Listener, PreflightReport
from trainmark.controller.results import refuse_file
from trainmark.errors import InputError, StoreError
from trainmark.frameworks import frameworks
from trainmark.launch.job import Machines
from trainmark.launch.registry import launchers
from trainmark.spec.cell import Cell

if TYPE_CHECKING:
    from trainmark.controller.execute import Task
    from trainmark.launch.job import Command, Job
    from trainmark.launch.processes import Root

_WAIT_S = 20.0
"""For the other machines to answer."""
_LAST_S = 5.0
"""From the first process that ends to the last."""


def check_machines(tasks: Sequence[Task], store: Path, listener: Listener) -> None:
    """Once for each launcher, with its largest job; an error if something is wrong that no run would survive."""
    largest: dict[str, Task] = {}
    for task in tasks:
        known = largest.get(task.launcher)
        if _is_needed(task) and (known is None or _size(task) > _size(known)):
            largest[task.launcher] = task
    data = {task.cell.data.path for task in tasks if isinstance(task.cell, Cell)}
    for task in largest.values():
        report = _check(task, store, sorted(path for path in data if path))
        listener.show_preflight(report)
        if report.is_fatal:
            hint = "fix what the table names; --no-preflight skips this check"
            raise InputError("the machines are not ready", why="see the table above", hint=hint)


def _size(task: Task) -> int:
    return task.cell.nodes * task.cell.devices_per_node


def _is_needed(task: Task) -> bool:
    """Where processes start on other machines, unless through a queue: that would mean waiting in it twice."""
    job = task.job("preflight", Path())
    if launchers().load(task.launcher).machines is Machines.SCHEDULER:
        return job.is_allocated
    return bool(job.hosts)


def _check(task: Task, store: Path, data: list[str]) -> PreflightReport:
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
    return PreflightReport(findings=findings, num_answers=len(answers), num_expected=expected)


def _ask(job: Job, task: Task, data: list[str]) -> dict[str, str]:
    from trainmark.launch.preflight import build_commands

    token = secrets.token_hex(8)
    (job.folder / token).touch()
    framework = frameworks().load(task.cell.framework) if isinstance(task.cell, Cell) else None
    request = {
        "folder": str(job.folder),
        "token": token,
        "wait_s": _WAIT_S,
        "data": [os.path.realpath(path) for path in data],
        "package": None if framework is None else framework.distribution,
        "device": job.device,
    }
    commands = build_commands(job, task.launcher, request)
    names = [host.name for host in job.hosts] if len(commands) == len(job.hosts) else [""]
    return _run_all(job, dict(zip(names, commands, strict=True)))


def _run_all(job: Job, commands: dict[str, Command]) -> dict[str, str]:
    """Waits for all of them, however the others end: an answer matters most when another machine is missing."""
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
            if any(
                root.poll() is not None for root in roots
            ):  # the others answer now, or wait for a machine that is gone
                deadline = min(deadline, time.monotonic() + _LAST_S)
    finally:
        processes.end(job.run_id, roots)
    return {name: path.read_text(encoding="utf-8", errors="replace") for name, path in files.items()}


def _start(command: Command, output: IO[bytes]) -> Root:
    from trainmark.launch import processes

    try:
        return processes.Root(command, output=output)
    except OSError as error:
        hint = "install it, or set remote_shell in the cluster file"
        why = error.strerror or str(error)
        raise InputError(f"cannot start {command.argv[0]}", why=why, hint=hint) from error


def make_shared_folder(store: Path, prefix: str) -> Path:
    """A temporary folder in the store, which all machines of a run see."""
    refuse_file(store)
    try:
        store.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=prefix, dir=store)).resolve()
    except OSError as error:
        why = error.strerror or str(error)
        hint = "use another --store DIR, or fix its permissions"
        raise StoreError(f"cannot write to the store {store}", why=why, hint=hint) from error
