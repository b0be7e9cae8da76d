"""Paddle behind the measured loop: device, precision and time. What a step does is in `step`."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import paddle
from numpy.typing import NDArray
from paddle import Tensor

from trainmark import rank_environment
from trainmark.messages.message import Message
from trainmark.weights.neutral import Weights
from trainmark.worker.array_checkpoint import read_state, write_state
from trainmark.worker.memory import peak_host_bytes
from trainmark.worker.paddle.ranks import (
    copy_statistics_of_first,
    join_processes,
    sync_batch_norms,
    time_all_reduce,
)
from trainmark.worker.paddle.sources import PaddleSources
from trainmark.worker.paddle.step import Precision, TrainStep
from trainmark.worker.paddle.weights import export_weights, import_weights
from trainmark.worker.paddle.workload import Batch, PaddleWorkload, TensorScores
from trainmark.worker.ranks import Ranks, SingleRank
from trainmark.worker.training import TrainingEngine
from trainmark.workloads.metric import Scores
from trainmark.workloads.registry import load_module

_RUN_AHEAD = 3
"""Steps the host may queue before it waits for the device: enough to hide Python, few enough to keep memory low."""
_SEEDS_APART = 65_537
"""Between ranks, so that seed 1 of one is not seed 0 of the next."""


class PaddleEngine(TrainingEngine[Batch]):
    # -- building ------------------------------------------------------------------------------------------------------

    def _start(self) -> Ranks:
        cell = self._cell
        self._is_cuda = cell.device == "cuda"
        choose_device(cell.device)
        self._workload: PaddleWorkload = load_module(cell.workload, "paddle")
        ranks = join_processes(cell.device) if self.world_size > 1 else SingleRank()
        self._precision = Precision(name=cell.precision, device_type=cell.device)
        self._precision.apply()
        paddle.seed(cell.seed)
        self._recent: deque[Any] = deque()
        return ranks

    def _sources(self) -> PaddleSources:
        return PaddleSources(workload=self._cell.workload, size=self._size, device_type=self._cell.device)

    def _build(self) -> None:
        model = self._workload.build_model(
            recipe=self._cell.recipe,
            device_type=self._cell.device,
            num_classes=self._feed.num_classes,
            size=self._size,
        )
        model.train()
        if self._syncs_batch_norm:
            sync_batch_norms(model, num_ranks=self.world_size)
        self.model = model
        self._train_step = TrainStep(
            model=model,
            workload=self._workload,
            optimizer_facts=self._card.optimizer,
            precision=self._precision,
        )
        if self.world_size > 1:
            self._train_step.share()
        if self.rank > 0:  # the ranks have the same weights, but must not have the same dropout: their samples differ
            paddle.seed(self._cell.seed + _SEEDS_APART * self.rank)

    @property
    def _syncs_batch_norm(self) -> bool:
        """Paddle has it for GPUs only; on the CPU each process keeps its own statistics, and `facts` says so."""
        return self._card.sync_batch_norm and self.world_size > 1 and self._is_cuda

    # -- training ------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        while len(self._recent) > _RUN_AHEAD:
            self._recent.popleft().synchronize()
        super().step()

    def _train(self, batch: Batch, rate: float) -> None:
        self._train_step.set_learning_rate(rate)
        self._train_step.run(batch)

    def twin_step(self) -> None:
        with self._train_step.without_exchange():
            self.step()

    def why_no_twin(self) -> Message | None:
        return self._train_step.why_no_twin()

    def timestamp(self) -> Any:
        if not self._is_cuda:
            return time.perf_counter()
        # Blocking: the thread sleeps while it waits. By default it spins, and a core that spins decodes no images.
        event = paddle.device.cuda.Event(enable_timing=True, blocking=True)
        event.record()
        self._recent.append(event)
        return event

    def is_done(self, timestamp: Any) -> bool:
        return not self._is_cuda or bool(timestamp.query())

    def seconds_between(self, earlier: Any, later: Any) -> float:
        if not self._is_cuda:
            return float(later - earlier)
        return float(earlier.elapsed_time(later)) / 1000

    def queue_loss(self) -> Tensor:
        """Every step has a loss tensor of its own. Copied from a GPU without waiting."""
        loss = self._train_step.loss
        return loss._copy_to(paddle.CUDAPinnedPlace(), False) if self._is_cuda else loss

    def read_loss(self, handle: Tensor) -> float:
        return float(handle.numpy())

    def wait(self) -> None:
        if self._is_cuda:
            paddle.device.synchronize()
            self._recent.clear()

    def _trained(self) -> list[Tensor]:
        return [parameter for parameter in self.model.parameters() if not parameter.stop_gradient]

    def gradient_bytes(self) -> int:
        return sum(parameter.size * parameter.element_size() for parameter in self._trained())

    def time_all_reduce(self, num_bytes: int, *, max_seconds: float) -> list[float]:
        return time_all_reduce(num_bytes, is_cuda=self._is_cuda, ranks=self._ranks, max_seconds=max_seconds)

    def _fingerprint(self) -> Sequence[float]:
        norms = [weight.detach().astype(paddle.float32).square().sum() for weight in self._trained()]
        fingerprint: list[float] = paddle.stack(norms).tolist()
        return fingerprint

    # -- evaluation and checkpoints ------------------------------------------------------------------------------------

    def _score(self, batches: Iterator[Batch], on_batch: Callable[[], None]) -> Scores | None:
        if self.world_size > 1:
            copy_statistics_of_first(self.model)
        self.model.eval()
        scores = []
        with paddle.no_grad(), self._precision.autocast():
            for batch in batches:
                scores.append(self._workload.score(self.model, batch))
                on_batch()
        self.model.train()
        return _merge(scores)

    def _state(self) -> dict[str, Any]:
        return self._train_step.state()

    def _load_state(self, state: Mapping[str, Any]) -> None:
        self._train_step.load_state(state)

    def export_weights(self) -> dict[str, NDArray[Any]]:
        return export_weights(self.model)

    def import_weights(self, weights: Weights) -> None:
        import_weights(self.model, weights)
        self._first_weights = self._fingerprint()

    def _dump(self, state: Mapping[str, Any], file: BinaryIO) -> None:
        write_state(state, file, framework="paddle")

    def _load(self, path: Path) -> Mapping[str, Any]:
        return read_state(path, framework="paddle")

    def _randomness(self) -> list[Any]:
        """Of each generator its device, seed, offset and the text of its engine as a list of characters."""
        return [state.__getstate__() for state in paddle.get_rng_state()]

    def _set_randomness(self, state: list[Any]) -> None:
        kinds = [type(current) for current in paddle.get_rng_state()]
        paddle.set_rng_state([_make_state(kind, given) for kind, given in zip(kinds, state, strict=True)])

    # -- what the run should remember ----------------------------------------------------------------------------------

    def peak_memory_bytes(self) -> int | None:
        return int(paddle.device.cuda.max_memory_allocated()) if self._is_cuda else peak_host_bytes()

    def facts(self) -> Mapping[str, Any]:
        return {
            "framework": f"paddle {paddle.__version__}",
            "device_name": paddle.device.cuda.get_device_name() if self._is_cuda else None,
            "cuda": paddle.version.cuda() if self._is_cuda else None,
            "cudnn": paddle.version.cudnn() if self._is_cuda else None,
            "nccl": paddle.version.nccl() if self._is_cuda else None,
            "num_threads": int(os.environ.get("OMP_NUM_THREADS", 1)),
            "num_parameters": sum(parameter.size for parameter in self._trained()),
            "num_classes": self._feed.num_classes,
            "learning_rate_peak": self._peak_rate,
            "flags": {"sync_batch_norm": self._syncs_batch_norm, **self._train_step.facts()},
        }


def _merge(scores: list[TensorScores]) -> Scores | None:
    """Counts are added on the device, items are collected."""
    if not scores:
        return None
    if isinstance(scores[0], Tensor):
        counts: Scores = paddle.stack([part for part in scores if isinstance(part, Tensor)]).sum(axis=0).numpy()
        return counts
    return [item for part in scores if isinstance(part, list) for item in part]


def choose_device(kind: str) -> None:
    if kind == "cpu":
        paddle.set_device("cpu")
        return
    paddle.set_device(f"gpu:{rank_environment.read('LOCAL_RANK', os.environ, default=0)}")


def _make_state(kind: Any, given: Sequence[Any]) -> Any:
    """Paddle builds the state of a generator from values only by the protocol of pickle."""
    device, seed, offset, words = given
    state = kind.__new__(kind)
    state.__setstate__((int(device), int(seed), int(offset), [int(word) for word in words]))
    return state
