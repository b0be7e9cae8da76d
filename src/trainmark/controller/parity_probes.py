"""Probes of frameworks, each in a process of its own: two frameworks in one process would share threads and memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from trainmark.errors import RunError
from trainmark.worker.probe import EpochRequest, EpochResult, ProbeRequest, ProbeResult
from trainmark.worker.probe_files import ProbeFailedError, read_epoch_result, read_probe_result, write_request

_TAIL_LINES = 12


class Prober(Protocol):
    def run_steps(self, requests: Sequence[ProbeRequest]) -> list[ProbeResult]:
        """All of one framework and one precision."""

    def run_epoch(self, request: EpochRequest) -> EpochResult: ...


class ProcessProber:
    """Requests and results go through `folder`, which is emptied after each process."""

    def __init__(self, folder: Path, *, tell: Callable[[str], None], command: Sequence[str] = ()) -> None:
        self._folder, self._tell = folder, tell
        self._command = command or (sys.executable, "-m", "trainmark.worker.probe")

    def run_steps(self, requests: Sequence[ProbeRequest]) -> list[ProbeResult]:
        first = requests[0]
        steps = sum(len(request.rates) for request in requests)
        self._tell(f"{first.framework} {first.precision}: {steps} steps" if steps else f"{first.framework}: weights")
        folders = self._run(requests)
        return [read_probe_result(folder) for folder in folders]

    def run_epoch(self, request: EpochRequest) -> EpochResult:
        self._tell(f"{request.cell.framework}: {request.num_steps} steps on generated data")
        return read_epoch_result(self._run([request])[0])

    def _run(self, requests: Sequence[ProbeRequest | EpochRequest]) -> list[Path]:
        shutil.rmtree(self._folder, ignore_errors=True)
        folders = [self._folder / str(number) for number in range(len(requests))]
        for folder, request in zip(folders, requests, strict=True):
            write_request(folder, request)
        ended = subprocess.run(
            [*self._command, *map(str, folders)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if ended.returncode != 0:
            raise RunError(self._explain(requests[0], folders, ended))
        return folders

    @staticmethod
    def _explain(
        request: ProbeRequest | EpochRequest, folders: Sequence[Path], ended: subprocess.CompletedProcess[bytes]
    ) -> str:
        framework = request.cell.framework if isinstance(request, EpochRequest) else request.framework
        try:
            for folder in folders:
                read_probe_result(folder)
        except (ProbeFailedError, KeyError) as error:
            why = str(error)
        tail = "\n".join(ended.stdout.decode(errors="replace").splitlines()[-_TAIL_LINES:])
        return f"{framework} ended with exit code {ended.returncode}: {why}\n{tail}"
