"""The engine of the framework `sample`: what the measured loop asks of a framework, see `trainmark.worker.engine`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.messages.message import Message
from trainmark.messages.scaling import one_process
from trainmark.runfolder.document import WorkloadCell
from trainmark.workloads.registry import load_card, load_module


def build_engine(cell: WorkloadCell) -> SampleEngine:
    return SampleEngine(cell)


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError)


def limit_memory(device: str, num_bytes: int) -> None:
    raise NotImplementedError(f"no limit of {num_bytes} bytes on {device}")


class SampleEngine:
    """One process; a step is done when it returns, so its timestamps are readings of the host's clock."""

    rank = 0
    world_size = 1
    steps_per_epoch = None

    def __init__(self, cell: WorkloadCell) -> None:
        self.samples_per_step = int(cell.batch_size_per_device)
        self._lr = cell.lr or load_card(cell.workload).schedule.base_lr
        module = load_module(cell.workload, cell.framework)
        self._line = module.Line(batch_size=self.samples_per_step, seed=cell.seed)

    def step(self) -> None:
        self._line.step(self._lr)

    def twin_step(self) -> None:
        self.step()

    def why_no_twin(self) -> Message:
        return one_process()

    def timestamp(self) -> float:
        return time.perf_counter()

    def is_done(self, timestamp: float) -> bool:
        return True

    def seconds_between(self, earlier: float, later: float) -> float:
        return later - earlier

    def queue_loss(self) -> float:
        return float(self._line.loss)

    def read_loss(self, handle: float) -> float:
        return handle

    def wait(self) -> None:
        pass

    def agree(self, gravity: int, numbers: Sequence[int]) -> tuple[int, list[int]]:
        return gravity, list(numbers)

    def gather(self, part: Any) -> list[Any]:
        return [part]

    def slowest(self, seconds: float) -> float:
        return seconds

    def gradient_bytes(self) -> int:
        return 16

    def time_all_reduce(self, num_bytes: int, *, max_seconds: float) -> list[float]:
        return []

    def evaluate(self, on_batch: Callable[[], None] = lambda: None) -> Mapping[str, float] | None:
        on_batch()
        return {"fit": max(0.0, 1.0 - abs(3.0 - self._line.slope) - abs(-1.0 - self._line.offset))}

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        pass

    def save(self, path: Path, progress: Mapping[str, float]) -> None:
        path.write_text(json.dumps({"progress": dict(progress), "weights": [self._line.slope, self._line.offset]}))

    def restore(self, path: Path) -> Mapping[str, float]:
        state = json.loads(path.read_text())
        self._line.slope, self._line.offset = state["weights"]
        return dict(state["progress"])

    def advise_on_bad_loss(self, step: int) -> None:
        pass

    def weights_changed(self) -> bool:
        return bool(self._line.slope or self._line.offset)

    def warnings(self) -> list[Message]:
        return []

    def facts(self) -> Mapping[str, Any]:
        return {"engine": "sample"}

    def peak_memory_bytes(self) -> int | None:
        return None

    def close(self) -> None:
        pass
