"""What the engines of all frameworks share: data, learning rate, evaluation, checkpoints, agreement of the ranks.

`worker/engine.py` lists what a framework has to add.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainmark.errors import first_line
from trainmark.messages.message import Message
from trainmark.messages.training import checkpoint_of_another
from trainmark.runfolder.document import WorkloadCell
from trainmark.weights.neutral import Weights
from trainmark.worker.checkpoint import CheckpointRefusedError, remove_unfinished, write_checkpoint
from trainmark.worker.engine import Timestamp, call
from trainmark.worker.feed import Feed, Sources, build_feed
from trainmark.worker.ranks import Ranks, read_rank, require_same_data
from trainmark.worker.samples import Share
from trainmark.worker.sanity import advise_on_bad_loss
from trainmark.workloads.card import Card
from trainmark.workloads.metric import Metric, Scores
from trainmark.workloads.registry import load_card, load_module
from trainmark.workloads.schedules import learning_rate, peak_learning_rate

B = TypeVar("B")


class TrainingEngine(ABC, Generic[B]):
    """An `Engine` for any framework; `B` is its type of a batch on the device."""

    def __init__(self, cell: WorkloadCell) -> None:
        self.pause: Callable[[Callable[[], None]], None] = call
        self.rank, self.world_size = read_rank(cell)
        self.samples_per_step = cell.batch_size_per_device * self.world_size
        self._cell = cell
        self._card = self._load_card()
        self._size = self._card.sizes[cell.size]
        self._metric: Metric = load_module(cell.workload, "metric")
        self._num_steps = 0
        self._ranks = self._start()
        share = Share(
            rank=self.rank,
            world_size=self.world_size,
            batch_size=cell.batch_size_per_device,
            seed=cell.seed,
        )
        self._feed: Feed[B] = build_feed(
            cell.data, card=self._card, size=self._size, share=share, sources=self._sources()
        )
        require_same_data(self._ranks.gather((os.uname().nodename, _describe_data(self._feed))))
        self.steps_per_epoch = self._feed.steps_per_epoch
        self._recipe_rate = peak_learning_rate(self._card.schedule, global_batch=self.samples_per_step)
        self._peak_rate: float = cell.lr or self._recipe_rate
        self._build()
        self._feed.begin_epoch(0)
        self._warm_up()
        self._first_weights = self._fingerprint()

    def _load_card(self) -> Card:
        return load_card(self._cell.workload)

    # -- what a framework adds: building -------------------------------------------------------------------------------

    @abstractmethod
    def _start(self) -> Ranks:
        """Choose the device and the precision, seed, and join the other processes."""

    @abstractmethod
    def _sources(self) -> Sources[B]:
        """How this framework gets batches onto its device."""

    @abstractmethod
    def _build(self) -> None:
        """Build model and optimizer."""

    def _warm_up(self) -> None:
        """Compile before the clock starts. The training state and the feed must be as before when this returns."""

    # -- what a framework adds: training -------------------------------------------------------------------------------

    @abstractmethod
    def _train(self, batch: B, rate: float) -> None:
        """Queue one training step."""

    @abstractmethod
    def _score(self, batches: Iterator[B], on_batch: Callable[[], None]) -> Scores | None:
        """The scores of all batches together, on the host; None if there are no batches.

        All ranks must score the model that a checkpoint holds: rank 0's. Calls `on_batch` after each batch.
        """

    @abstractmethod
    def _fingerprint(self) -> Sequence[float]:
        """A few numbers for each trained weight, which differ if the weight differs."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """Model, optimizer and loss scaler, as the framework can write them."""

    @abstractmethod
    def _load_state(self, state: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def export_weights(self) -> dict[str, NDArray[Any]]:
        """On the host, named and laid out as `trainmark.weights.neutral` says, in the type that they are trained in."""

    @abstractmethod
    def import_weights(self, weights: Weights) -> None:
        """Into the model, before the first step; a tensor that is missing, extra or of another shape is an error.

        Must also set `_first_weights` anew: `weights_changed` compares with what was imported.
        """

    @abstractmethod
    def _randomness(self) -> Any:
        """State of the random number generators of this process, which belong to dropout and sampling."""

    @abstractmethod
    def _set_randomness(self, state: Any) -> None: ...

    @abstractmethod
    def _dump(self, state: Mapping[str, Any], file: BinaryIO) -> None: ...

    @abstractmethod
    def _load(self, path: Path) -> Mapping[str, Any]:
        """Must not run code from the file."""

    @abstractmethod
    def timestamp(self) -> Timestamp: ...
    @abstractmethod
    def is_done(self, timestamp: Timestamp) -> bool: ...
    @abstractmethod
    def seconds_between(self, earlier: Timestamp, later: Timestamp) -> float: ...
    @abstractmethod
    def queue_loss(self) -> Any: ...
    @abstractmethod
    def read_loss(self, handle: Any) -> float: ...
    @abstractmethod
    def wait(self) -> None: ...
    @abstractmethod
    def gradient_bytes(self) -> int: ...
    @abstractmethod
    def time_all_reduce(self, num_bytes: int, *, max_seconds: float) -> list[float]: ...
    @abstractmethod
    def why_no_twin(self) -> Message | None: ...
    @abstractmethod
    def twin_step(self) -> None: ...
    @abstractmethod
    def peak_memory_bytes(self) -> int | None: ...
    @abstractmethod
    def facts(self) -> Mapping[str, Any]: ...

    # -- what all share ------------------------------------------------------------------------------------------------

    def step(self) -> None:
        self._train(self._feed.next_batch(), self.learning_rate(self._num_steps))
        self._num_steps += 1

    def skip_batch(self) -> None:
        """Take the next batch and do not train on it: what the loader can do alone."""
        self._feed.next_batch()

    @property
    def num_ahead(self) -> int:
        """Batches that the feed makes ahead at most; 0 where none is made while the device trains."""
        return self._feed.num_ahead

    def restart_feed(self) -> None:
        self._feed.restart()

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        self._feed.begin_epoch(epoch, step=step)

    def learning_rate(self, step: int) -> float:
        steps_per_epoch = self.steps_per_epoch or self._card.num_train_samples / self.samples_per_step
        epochs = self._cell.epochs or self._card.schedule.epochs
        num_steps = epochs * steps_per_epoch
        return learning_rate(self._card.schedule, peak=self._peak_rate, step=step, num_steps=num_steps, epochs=epochs)

    def advise_on_bad_loss(self, step: int) -> Message:
        return advise_on_bad_loss(
            rate=self.learning_rate(step - 1),
            peak=self._peak_rate,
            recipe_peak=self._recipe_rate,
            is_fp16=self._cell.precision in ("amp", "fp16"),
        )

    def weights_changed(self) -> bool:
        return self._first_weights != self._fingerprint()

    def agree(self, gravity: int, numbers: Sequence[int]) -> tuple[int, list[int]]:
        return self._ranks.agree(gravity, numbers)

    def gather(self, part: Any) -> list[Any]:
        return self._ranks.gather(part)

    def slowest(self, seconds: float) -> float:
        return self._ranks.slowest(seconds)

    def evaluate(self, on_batch: Callable[[], None] = lambda: None) -> Mapping[str, float] | None:
        if not self._feed.can_evaluate:
            return None
        scores = self._score(self._feed.eval_batches(), on_batch)
        # Rank 0 computes the metric for all: with many items it takes a while, and it is needed once.
        gathered = self._ranks.gather_on_first(scores)
        metrics: Mapping[str, float] = {}
        if self.rank == 0:
            total = merge_scores([part for part in gathered if part is not None])  # a rank may have no sample
            metrics = self._metric.summarise(total, self._feed.truth) if total is not None else {}
        return self._ranks.broadcast(metrics)

    def save(self, path: Path, progress: Mapping[str, float]) -> None:
        randomness = self._ranks.gather_on_first(self._randomness())

        def write() -> None:
            state = {**self._state(), "randomness": randomness, "progress": dict(progress)}
            write_checkpoint(path, lambda file: self._dump(state, file))

        self._ranks.run_on_first(write)
        self._feed.restart()

    def restore(self, path: Path) -> Mapping[str, float]:
        if self.rank == 0:
            remove_unfinished(path)
        state = self._load(path)
        try:
            progress: Mapping[str, float] = state["progress"]
            self._load_state(state)
            self._set_randomness(state["randomness"][self.rank])
            self._num_steps = int(progress["num_steps"])
        except (LookupError, TypeError, ValueError) as error:
            raise CheckpointRefusedError(path, checkpoint_of_another(error=first_line(error))) from error
        return progress

    def warnings(self) -> list[Message]:
        return self._feed.warnings()

    def close(self) -> None:
        self._feed.close()
        self._ranks.close()


def merge_scores(scores: Sequence[Scores]) -> Scores | None:
    """Counts are added, items are collected."""
    if not scores:
        return None
    if isinstance(scores[0], np.ndarray):
        total: Scores = np.sum([part for part in scores if isinstance(part, np.ndarray)], axis=0)
        return total
    return [item for part in scores if isinstance(part, list) for item in part]


def _describe_data(feed: Feed[Any]) -> dict[str, Any]:
    num_train, num_val = feed.num_samples or (None, None)
    return {
        "training samples": num_train,
        "validation samples": num_val,
        "classes": feed.num_classes,
        "steps per epoch": feed.steps_per_epoch,
        "evaluation": "possible" if feed.can_evaluate else "impossible",
    }
