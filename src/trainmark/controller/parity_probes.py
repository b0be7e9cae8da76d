"""Probes of frameworks, each in a process of its own: two frameworks in one process would share threads and memory.

A result is kept in the store until the whole check is done, so that an interrupted one is resumed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainmark.controller.parity_code import CodeChangedError, CodeWatch
from trainmark.errors import RunError
from trainmark.units import format_count
from trainmark.worker.probe import PARENT_VARIABLE, EpochRequest, EpochResult, ProbeRequest, ProbeResult
from trainmark.worker.probe_files import (
    key_of,
    read_epoch_result,
    read_kept_result,
    read_probe_result,
    remove_request,
    why_failed,
    write_request,
)

Request = ProbeRequest | EpochRequest
_TAIL_LINES = 12


class Prober(Protocol):
    def run_steps(self, requests: Sequence[ProbeRequest]) -> list[ProbeResult]:
        """In any order, of any frameworks and precisions; the results are in the order of the requests."""

    def run_epochs(self, requests: Sequence[EpochRequest]) -> list[EpochResult]: ...


@dataclass(frozen=True, kw_only=True)
class _Task:
    """What one process does: requests of one framework and one precision, with the folder of each."""

    workload: str
    framework: str
    what: str
    requests: Sequence[tuple[Path, Request]]


class ProcessProber:
    """Requests and results go through `folder`. `jobs` processes run at the same time, each with its share of cores."""

    def __init__(
        self, folder: Path, *, tell: Callable[[str], None], command: Sequence[str] = (), jobs: int = 1
    ) -> None:
        self._folder, self._tell, self._jobs = folder, tell, jobs
        self._asked: set[str] = set()
        self._code = CodeWatch()
        self._running: list[subprocess.Popen[bytes]] = []
        self._starting = threading.Lock()
        self._is_ending = False
        self._command = command or (sys.executable, "-m", "trainmark.worker.probe")

    def run_steps(self, requests: Sequence[ProbeRequest]) -> list[ProbeResult]:
        keys = [key_of(request, salt=self._code.code_of(request.workload, request.framework)) for request in requests]
        named = {key: (self._folder / key, request) for key, request in zip(keys, requests, strict=True)}
        kept = ((key, read_kept_result(folder)) for key, (folder, _) in named.items())
        results = {key: result for key, result in kept if result is not None}
        missing = {key: pair for key, pair in named.items() if key not in results}
        num_kept = len(results.keys() - self._asked)
        if num_kept:
            self._tell(f"{num_kept} of {len(named)} results are kept from an interrupted check")
        self._asked |= named.keys()
        self._run(self._split(list(missing.values())))
        results |= {key: read_probe_result(folder) for key, (folder, _) in missing.items()}
        return [results[key] for key in keys]

    def run_epochs(self, requests: Sequence[EpochRequest]) -> list[EpochResult]:
        """Their data are gone after the check, so their results are not kept."""
        folders = [self._folder / f"epoch-{number}" for number in range(len(requests))]
        tasks = [
            _Task(
                workload=request.cell.workload,
                framework=request.cell.framework,
                what=f"{format_count(request.num_steps, 'steps')} on generated data",
                requests=[(folder, request)],
            )
            for folder, request in zip(folders, requests, strict=True)
        ]
        for task in tasks:
            self._code.code_of(task.workload, task.framework)
        self._run(tasks)
        return [read_epoch_result(folder) for folder in folders]

    def forget(self) -> None:
        """The check is done: only its record stays."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _split(self, requests: Sequence[tuple[Path, ProbeRequest]]) -> list[_Task]:
        """A process for all short requests of a framework and precision; long ones share the jobs."""
        groups: dict[tuple[str, str, str], list[tuple[Path, ProbeRequest]]] = {}
        for folder, request in requests:
            groups.setdefault((request.workload, request.framework, request.precision), []).append((folder, request))
        tasks = []
        for (workload, framework, precision), group in groups.items():
            num_parts = min(self._jobs, len(group))
            for number in range(num_parts):
                part = group[number::num_parts]
                steps = sum(len(request.rates) for _, request in part)
                what = f"{precision}, {format_count(steps, 'steps')}" if steps else "weights"
                tasks.append(_Task(workload=workload, framework=framework, what=what, requests=part))
        return tasks

    def _run(self, tasks: Sequence[_Task]) -> None:
        """If one fails, the others still end, and their results are kept.

        An interrupted check ends at once. One whose code has changed ends as soon as a process starts or ends.
        """
        with ThreadPoolExecutor(self._jobs) as pool:
            futures = [pool.submit(self._run_one, task) for task in tasks]
            try:
                ended = [future.exception() for future in futures]
            except KeyboardInterrupt:
                self._end()
                raise
        errors = [error for error in ended if error is not None]
        if errors:
            raise next((error for error in errors if isinstance(error, CodeChangedError)), errors[0])

    def _end(self) -> None:
        """No thread starts another process after this."""
        with self._starting:
            self._is_ending = True
            for process in self._running:
                process.terminate()

    def _environment(self) -> dict[str, str]:
        """Processes that run side by side share the cores and the GPU, unless the user has chosen otherwise."""
        num_cores = len(os.sched_getaffinity(0))
        threads = {} if self._jobs == 1 else {"OMP_NUM_THREADS": str(max(1, num_cores // self._jobs))}
        return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **threads}

    def _run_one(self, task: _Task) -> None:
        if self._is_ending:
            return
        self._tell(f"{task.framework}: {task.what}")
        for folder, request in task.requests:
            shutil.rmtree(folder, ignore_errors=True)
            write_request(folder, request)
        folders = [folder for folder, _ in task.requests]
        self._refuse_change(task, folders)
        process = self._start(folders)
        if process is None:
            return
        printed, _ = process.communicate()
        with self._starting:
            self._running.remove(process)
        self._refuse_change(task, folders)
        if process.returncode != 0:
            raise self._explain(task, process.returncode, printed)
        for folder in folders:
            remove_request(folder)

    def _refuse_change(self, task: _Task, folders: Sequence[Path]) -> None:
        """Before a process loads the code too: it may be put back while the process runs."""
        if self._code.has_changed(task.workload, task.framework):
            self._end()
            for folder in folders:  # their key names the previous code
                shutil.rmtree(folder, ignore_errors=True)
            raise CodeChangedError

    def _start(self, folders: Sequence[Path]) -> subprocess.Popen[bytes] | None:
        """None where the check is ending."""
        with self._starting:
            if self._is_ending:
                return None
            process = subprocess.Popen(
                [*self._command, *map(str, folders)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**self._environment(), **os.environ, PARENT_VARIABLE: str(os.getpid())},
            )
            self._running.append(process)
            return process

    def _explain(self, task: _Task, code: int, printed: bytes) -> RunError:
        """The end of its output is told before the error, which is one sentence."""
        for line in printed.decode(errors="replace").splitlines()[-_TAIL_LINES:]:
            self._tell(f"  {line}")
        told = (why_failed(folder) for folder, _ in task.requests)
        why = next((text for text in told if text is not None), "the process ended without a result")
        hint = "the same command continues with what has been computed"
        return RunError(f"{task.framework} ended with exit code {code}", why=why, hint=hint)
