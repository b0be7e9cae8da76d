"""Helper processes that fill the compile cache together, so that a first start need not compile on one core.

Each builds the training of the cell on synthetic data and takes one step for each set of shapes, in which it compiles
those parts of the network that no other has begun. The training itself then finds everything in the cache. It knows
nothing of who had begun what: a part that is not there because its helper died is compiled by the training.
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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

import trainmark.workloads
from trainmark.cache_folder import compile_cache_folder
from trainmark.parent_death import die_with
from trainmark.runfolder.document import CellRecord, WorkloadCell
from trainmark.worker.feed import BatchShape
from trainmark.worker.images import num_decoders
from trainmark.workloads.registry import load_card

_MOST, _FEWEST = 8, 3
"""Helpers; with fewer, starting them takes as long as they save."""
_BYTES_OF_ONE = 18 << 30
"""Of the GPU's memory, in mixed precision at the usual size and batch: each holds the activations of a batch, most of
them not compiled. That is PSENet's need, the largest; HRNet needs 10 GB at batch 8 and 20 GB at 16."""
_MAX_SECONDS = 300.0
MAX_NEW_SHAPES_S = 40.0
"""After this time a helper begins no further set of shapes, so that the first step need not wait for all."""
_MIXED = ("amp", "bf16")
_THREADS_VARIABLE = "TORCHINDUCTOR_COMPILE_THREADS"


@dataclass(frozen=True, kw_only=True)
class CompileTask:
    """What a helper is told besides the cell."""

    without: tuple[str, ...]
    num_classes: int
    shapes: tuple[BatchShape, ...]
    """Of the batches; none: those of the synthetic batch."""
    claims: Path
    is_first: bool

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "claims": str(self.claims)}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> CompileTask:
        return cls(
            without=tuple(told["without"]),
            num_classes=told["num_classes"],
            shapes=tuple(tuple(shape) for shape in told["shapes"]),
            claims=Path(told["claims"]),
            is_first=told["is_first"],
        )


class CompileHelpers:
    """Started as early as possible; `wait` before the first step. Does nothing where the cache is warm."""

    def __init__(
        self, cell: WorkloadCell, without: Collection[str], *, num_classes: int, shapes: Sequence[BatchShape] = ()
    ) -> None:
        self._mark = _mark_of(cell, without, num_classes, shapes)
        self.is_cache_warm = self._mark.exists()
        """When the helpers would have been started."""
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ending = contextlib.ExitStack()
        number = num_helpers(cell)
        if number < _FEWEST or self.is_cache_warm:
            return
        claims = self._ending.enter_context(tempfile.TemporaryDirectory(prefix="trainmark-compile-"))
        own = asdict(replace(cell, data="synthetic", epochs=None, until_target={}))
        # Each has a pool of compiler processes, which by default is as large as the machine: six of them took 60 s.
        environment = {**os.environ, _THREADS_VARIABLE: str(max(1, num_decoders() // number)), "OMP_NUM_THREADS": "1"}
        for share in range(number):
            task = CompileTask(
                without=tuple(sorted(without)),
                num_classes=num_classes,
                shapes=tuple(shapes),
                claims=Path(claims),
                is_first=share == 0,
            )
            request = json.dumps({"cell": own, "task": task.to_json()})
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
        num_failed = sum(process.returncode != 0 for process in self._processes)
        if num_failed:
            share = f"{num_failed} of {len(self._processes)} processes that compile ahead failed"
            print(f"{share}; the training compiles what they left, which takes longer", file=sys.stderr)

    def note_success(self) -> None:
        """All that this training needs is in the cache now."""
        self._mark.parent.mkdir(parents=True, exist_ok=True)
        self._mark.touch()


def num_helpers(cell: WorkloadCell) -> int:
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return min(_MOST, num_decoders() // 2, total // bytes_of_one(cell))


def bytes_of_one(cell: WorkloadCell) -> int:
    """Of the GPU's memory, estimated high: a helper without memory dies, and its work is done on one core later."""
    sizes = load_card(cell.workload).sizes
    usual = max(sizes.values(), key=lambda size: size.flops_per_sample)
    share = sizes[cell.size].flops_per_sample / usual.flops_per_sample * cell.batch_size_per_device / usual.batch_size
    return round(_BYTES_OF_ONE * max(1.0, share) * (1 if cell.precision in _MIXED else 2))


def _mark_of(cell: WorkloadCell, without: Collection[str], num_classes: int, shapes: Sequence[BatchShape]) -> Path:
    """A file that is there if this training was compiled before, by the same versions and the same code."""
    facts = [cell.workload, cell.precision, cell.size, cell.batch_size_per_device, sorted(without)]
    facts += [num_classes, sorted(shapes), torch.__version__, torch.cuda.get_device_name()]
    digest = hashlib.sha256(json.dumps(facts).encode())
    for path in sorted(Path(trainmark.workloads.__path__[0]).rglob("torch*.py")):
        digest.update(path.read_bytes())
    return compile_cache_folder(os.environ) / f"compiled-{digest.hexdigest()[:16]}"


def main() -> None:
    die_with(os.getppid())
    from trainmark.worker.torch.engine import CompilingEngine

    request = json.loads(sys.argv[1])
    cell = CellRecord.from_json(request["cell"]).workload_cell()
    CompilingEngine(cell, CompileTask.from_json(request["task"])).close()


if __name__ == "__main__":
    main()
