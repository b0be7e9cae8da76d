"""JAX behind the measured loop: device, precision and time. What a step does is in `step`."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from trainmark.errors import first_line
from trainmark.messages.message import Message
from trainmark.weights.neutral import Weights, require_tensors
from trainmark.worker.array_checkpoint import read_state, write_state
from trainmark.worker.jax.compiler import keep_compiled
from trainmark.worker.jax.marks import Mark, Watcher
from trainmark.worker.jax.placement import Placement, choose_platform
from trainmark.worker.jax.ranks import join_processes, time_all_reduce
from trainmark.worker.jax.sources import JaxSources
from trainmark.worker.jax.step import Precision, TrainStep
from trainmark.worker.jax.workload import Batch, JaxWorkload
from trainmark.worker.memory import peak_host_bytes
from trainmark.worker.ranks import Ranks, SingleRank
from trainmark.worker.training import TrainingEngine, merge_scores
from trainmark.workloads.card import ImageSize
from trainmark.workloads.jax_layers import Kind, declare, initialise
from trainmark.workloads.metric import Scores
from trainmark.workloads.registry import load_module

_RUN_AHEAD = 3
"""Steps the host may queue before it waits for the device: enough to hide Python, few enough to keep memory low."""


class JaxEngine(TrainingEngine[Batch]):
    # -- building ------------------------------------------------------------------------------------------------------

    def _start(self) -> Ranks:
        cell = self._cell
        self._precision = Precision(name=cell.precision)
        self._workload: JaxWorkload = load_module(cell.workload, "jax")
        choose_platform(cell.device)
        keep_compiled(cell.device)
        ranks = join_processes() if self.world_size > 1 else SingleRank()
        try:
            self._placement = Placement.of(self.world_size)
        except RuntimeError as error:
            if cell.device != "cuda":
                raise
            raise ValueError(f"this JAX cannot use the GPU ({first_line(error)}); install jax[cuda13]") from error
        self._watcher = Watcher()
        self._recent: deque[Array] = deque()
        return ranks

    def _sources(self) -> JaxSources:
        return JaxSources(workload=self._workload, size=self._size, placement=self._placement)

    def _build(self) -> None:
        cell, size = self._cell, self._size
        assert isinstance(size, ImageSize)
        forward = self._workload.build_model(
            recipe=cell.recipe, device_type=cell.device, num_classes=self._feed.num_classes, size=size
        )
        self._declared = declare(forward, (size.num_frames, size.height, size.width, 3))
        self._train_step = TrainStep(
            forward=forward,
            declared=self._declared,
            values=initialise(self._declared, cell.seed),
            workload=self._workload,
            optimizer_facts=self._card.optimizer,
            precision=self._precision,
            placement=self._placement,
            is_fast=cell.recipe == "fast",
            syncs_batch_norm=self._syncs_batch_norm,
            seed=cell.seed,
        )

    @property
    def _syncs_batch_norm(self) -> bool:
        """On GPUs only, as in PyTorch, so that both frameworks do the same work; `facts` says so."""
        return self._card.sync_batch_norm and self.world_size > 1 and self._cell.device == "cuda"

    def _warm_up(self) -> None:
        batch = self._feed.next_batch()
        self._train_step.compile(batch)
        if self.world_size > 1 and self._cell.epochs is None:  # twin steps follow a measurement of speed
            self._train_step.compile(batch, is_exchanging=False)
        # Gloo gives up if the first exchange of one rank is 30 s before that of another, and only rank 0 finds compiled
        # programs in the cache: on a CPU the others may compile for minutes more.
        self._ranks.gather(None)
        self._feed.begin_epoch(0)

    # -- training ------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        while len(self._recent) > _RUN_AHEAD:
            jax.block_until_ready(self._recent.popleft())
        super().step()

    def _train(self, batch: Batch, rate: float, *, is_exchanging: bool = True) -> None:
        self._train_step.run(batch, rate, is_exchanging=is_exchanging)
        assert self._train_step.loss is not None
        self._recent.append(self._train_step.loss)

    def twin_step(self) -> None:
        while len(self._recent) > _RUN_AHEAD:
            jax.block_until_ready(self._recent.popleft())
        self._train(self._feed.next_batch(), self.learning_rate(self._num_steps), is_exchanging=False)
        self._num_steps += 1

    def why_no_twin(self) -> Message | None:
        return self._train_step.why_no_twin()

    def timestamp(self) -> Mark:
        return self._watcher.mark(self._train_step.loss)

    def is_done(self, timestamp: Mark) -> bool:
        return timestamp.seconds is not None

    def seconds_between(self, earlier: Mark, later: Mark) -> float:
        assert earlier.seconds is not None
        assert later.seconds is not None
        return later.seconds - earlier.seconds

    def queue_loss(self) -> Array:
        loss = self._train_step.loss
        assert loss is not None
        loss.copy_to_host_async()
        return loss

    def read_loss(self, handle: Array) -> float:
        return float(np.asarray(handle).reshape(()))

    def wait(self) -> None:
        jax.block_until_ready(self._train_step.state)
        self._watcher.wait()
        self._recent.clear()

    def gradient_bytes(self) -> int:
        return sum(weight.nbytes for weight in self._train_step.state.weights.values())

    def time_all_reduce(self, num_bytes: int, *, max_seconds: float) -> list[float]:
        return time_all_reduce(num_bytes, placement=self._placement, ranks=self._ranks, max_seconds=max_seconds)

    def _fingerprint(self) -> Sequence[float]:
        trained = self._trained()
        return [float(np.linalg.norm(weight)) for weight in trained.values()]

    def _trained(self) -> dict[str, NDArray[Any]]:
        values = self._train_step.read_values()
        return {name: value for name, value in values.items() if self._declared[name].kind is not Kind.STATISTIC}

    # -- evaluation and checkpoints ------------------------------------------------------------------------------------

    def _score(self, batches: Iterator[Batch], on_batch: Callable[[], None]) -> Scores | None:
        if self.world_size > 1:
            self._copy_statistics_of_first()
        model = self._train_step.model()
        scores = []
        for batch in batches:
            scores.append(self._workload.score(model, self._placement.own(batch)))
            on_batch()
        return merge_scores(scores)

    def _copy_statistics_of_first(self) -> None:
        """Each rank keeps its own running statistics in training; a checkpoint holds those of rank 0."""
        values = self._train_step.read_values()
        kept = {name: value for name, value in values.items() if self._declared[name].kind is Kind.STATISTIC}
        self._train_step.write_values({**values, **self._ranks.broadcast(kept)})

    def export_weights(self) -> dict[str, NDArray[Any]]:
        return self._train_step.read_values()

    def import_weights(self, weights: Weights) -> None:
        require_tensors(weights, {name: found.shape for name, found in self._declared.items()})
        self._train_step.write_values(weights)
        self._first_weights = self._fingerprint()

    def _state(self) -> dict[str, Any]:
        return {"model": self._train_step.read_values(), "optimizer": self._train_step.read_slots()}

    def _load_state(self, state: Mapping[str, Any]) -> None:
        self._train_step.write_values(state["model"])
        self._train_step.write_slots(state["optimizer"])

    def _dump(self, state: Mapping[str, Any], file: BinaryIO) -> None:
        write_state(state, file, framework="jax")

    def _load(self, path: Path) -> Mapping[str, Any]:
        return read_state(path, framework="jax")

    def _randomness(self) -> None:
        """Dropout follows from the seed, the rank and the number of steps, which is part of the state."""

    def _set_randomness(self, state: None) -> None:
        pass

    # -- what the run should remember ----------------------------------------------------------------------------------

    def peak_memory_bytes(self) -> int | None:
        if self._cell.device == "cpu":
            return peak_host_bytes()
        peak = (self._placement.device.memory_stats() or {}).get("peak_bytes_in_use")
        return None if peak is None else int(peak)

    def facts(self) -> Mapping[str, Any]:
        is_cuda = self._cell.device == "cuda"
        is_tf32 = self._precision.name == "tf32"
        return {
            "framework": f"jax {jax.__version__}",
            "device_name": self._placement.device.device_kind if is_cuda else None,
            "cuda": self._placement.device.client.platform_version if is_cuda else None,
            "num_threads": int(os.environ.get("NPROC") or os.cpu_count() or 1),
            "num_parameters": sum(weight.size for weight in self._train_step.state.weights.values()),
            "num_classes": self._feed.num_classes,
            "learning_rate_peak": self._peak_rate,
            "flags": {
                "sync_batch_norm": self._syncs_batch_norm,
                "tf32_matmul": is_tf32,
                "tf32_convolution": is_tf32,
                **self._train_step.facts(),
            },
        }

    def close(self) -> None:
        self._watcher.close()
        super().close()
