"""Helper processes that fill the compile cache together, so that a first start need not compile on one core.

Each builds the training of the cell on synthetic data and takes one step, in which it compiles those parts of the
network that no other has begun. The training itself then finds everything in the cache. What a helper could not do, the
training compiles itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path

import torch

import trainmark.workloads
from trainmark.compile_cache import compile_cache_folder
from trainmark.parent_death import die_with
from trainmark.runfolder.document import CellRecord, WorkloadCell
from trainmark.worker.images import num_decoders

_MOST, _FEWEST = 8, 3
"""Helpers; with fewer, starting them takes as long as they save."""
_BYTES_OF_ONE = 18 << 30
"""Of the GPU's memory, at most: each holds the activations of a batch."""
_MAX_SECONDS = 300.0
_THREADS_VARIABLE = "TORCHINDUCTOR_COMPILE_THREADS"


class CompileHelpers:
    """Started as early as possible; `wait` before the first step. Does nothing where the cache is warm."""

    def __init__(self, cell: WorkloadCell, without: Collection[str]) -> None:
        self._mark = _mark_of(cell, without)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ending = contextlib.ExitStack()
        number = num_helpers()
        if number < _FEWEST or self._mark.exists():
            return
        claims = self._ending.enter_context(tempfile.TemporaryDirectory(prefix="trainmark-compile-"))
        own = asdict(replace(cell, data="synthetic", epochs=None, until_target={}))
        # Each has a pool of compiler processes, which by default is as large as the machine: six of them took 60 s.
        environment = {**os.environ, _THREADS_VARIABLE: str(max(1, num_decoders() // number)), "OMP_NUM_THREADS": "1"}
        for share in range(number):
            facts = {"claims": claims, "is_first": share == 0}
            request = json.dumps({"cell": own, "without": sorted(without), **facts})
            argv = [sys.executable, "-m", "trainmark.worker.torch.compile_ahead", request]
            self._processes.append(
                subprocess.Popen(
                    argv,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )

    def wait(self) -> None:
        end = time.monotonic() + _MAX_SECONDS
        for process in self._processes:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._ending.close()

    def note_success(self) -> None:
        """All that this training needs is in the cache now."""
        self._mark.parent.mkdir(parents=True, exist_ok=True)
        self._mark.touch()


def num_helpers() -> int:
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return min(_MOST, num_decoders() // 2, total // _BYTES_OF_ONE)


def _mark_of(cell: WorkloadCell, without: Collection[str]) -> Path:
    """A file that is there if this training was compiled before, by the same versions and the same code."""
    facts = [cell.workload, cell.precision, cell.size, cell.batch_size_per_device, sorted(without)]
    facts += [torch.__version__, torch.cuda.get_device_name()]
    digest = hashlib.sha256(json.dumps(facts).encode())
    for path in sorted(Path(trainmark.workloads.__path__[0]).rglob("torch*.py")):
        digest.update(path.read_bytes())
    return compile_cache_folder(os.environ) / f"compiled-{digest.hexdigest()[:16]}"


def main() -> None:
    die_with(os.getppid())
    from trainmark.worker.torch.engine import CompilingEngine

    request = json.loads(sys.argv[1])
    cell = CellRecord.from_json(request["cell"]).workload_cell()
    claims = Path(request["claims"])
    CompilingEngine(cell, without=request["without"], claims=claims, is_first=request["is_first"]).close()


if __name__ == "__main__":
    main()
