"""Where a step's batch comes from: made once, read once and repeated, or read from disk all the time.

A framework implements `Sources`: how arrays or JPEG files become batches on its device. Everything else is here.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from trainmark.messages.message import Message
from trainmark.units import format_count
from trainmark.worker.samples import Problems, Share
from trainmark.workloads.card import Card, Size
from trainmark.workloads.data import JpegFolder, Samples
from trainmark.workloads.registry import load_module

BatchShape = tuple[int, ...]
"""What tells the sets of shapes apart that a workload's batches can have; its meaning is the workload's."""
B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)

_LOOKED_AT = 2000
"""Batches of all ranks together whose shapes are looked up ahead; for Mask R-CNN that takes 0.04 s."""
_CACHED_BATCHES = 16
"""At most: 16 batches of 128 images at 224 are 1.2 GB in fp32."""


class Stream(Protocol[B_co]):
    """Batches on the device, in order, some of them being prepared ahead."""

    def __iter__(self) -> Iterator[B_co]: ...
    def __next__(self) -> B_co: ...
    def close(self) -> None:
        """Prepare no more."""


class Source(Protocol[B_co]):
    """A data set as batches of one rank on the device. `Share` says which samples; problems go to `Problems`."""

    @property
    def num_ahead(self) -> int:
        """Batches that are ready or in the making at most, besides the one in use."""

    def training(self, *, epoch: int, step: int) -> Stream[B_co]:
        """From that step of that epoch on, without end and without a gap between epochs."""

    def evaluation(self) -> Stream[B_co]: ...
    def close(self) -> None: ...


class Sources(Protocol[B_co]):
    """What a framework implements for its data."""

    def make_synthetic(self, share: Share, *, num_classes: int) -> B_co:
        """One batch on the device, seeded by the share's seed and rank."""

    def open_samples(self, data: Samples, share: Share, problems: Problems) -> Source[B_co]: ...
    def open_jpegs(self, data: JpegFolder, share: Share, problems: Problems) -> Source[B_co]: ...


class Feed(Protocol[B_co]):
    @property
    def num_classes(self) -> int: ...
    @property
    def steps_per_epoch(self) -> int | None: ...
    @property
    def num_samples(self) -> tuple[int, int] | None:
        """Of the data set, for training and for validation; None for synthetic data."""

    @property
    def num_ahead(self) -> int:
        """Of its source; 0 for batches that stay on the device."""

    @property
    def can_evaluate(self) -> bool: ...
    @property
    def truth(self) -> Any:
        """What the metric needs besides the scores."""

    def shapes_ahead(self) -> list[BatchShape]:
        """Of training batches, as far as they are known: the first ones of the ranks, then the most frequent ones.

        Empty where all batches have the same shapes or nothing is known. The same on all ranks.
        """

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        """`step` is the step of the epoch to start at, for a run that is resumed."""

    def next_batch(self) -> B_co: ...
    def restart(self) -> None:
        """At the end of a pause: throw away what was prepared while the clock stood still, except for one batch."""

    def eval_batches(self) -> Iterator[B_co]:
        """Every validation sample once over all ranks."""

    def warnings(self) -> list[Message]: ...
    def close(self) -> None: ...


def build_feed(data: str, *, card: Card, size: Size, share: Share, sources: Sources[B]) -> Feed[B]:
    """`data` is `synthetic`, a folder, or `cached:` and a folder."""
    if data == "synthetic":
        return RepeatingFeed(
            [sources.make_synthetic(share, num_classes=card.num_classes)], num_classes=card.num_classes
        )
    opened: Samples | JpegFolder = load_module(card.name, "data").open_data(
        Path(data.removeprefix("cached:")), size=size
    )
    feed = open_feed(opened, share, sources)
    return repeat_first_batches(feed) if data.startswith("cached:") else feed


def open_feed(data: Samples | JpegFolder, share: Share, sources: Sources[B]) -> DataFeed[B]:
    steps_per_epoch = share.num_steps(data)
    if steps_per_epoch == 0:
        there = format_count(data.num_train, "training samples")
        raise ValueError(f"{there} are fewer than one global batch of {share.global_batch}")
    problems = Problems()
    if isinstance(data, JpegFolder):
        source = sources.open_jpegs(data, share, problems)
    else:
        source = sources.open_samples(data, share, problems)
    return DataFeed(
        data,
        source,
        problems,
        steps_per_epoch=steps_per_epoch,
        find_shapes=lambda: _find_shapes(data, share),
    )


def _find_shapes(data: Samples | JpegFolder, share: Share) -> list[BatchShape]:
    batch_shape = getattr(data, "batch_shape", None)
    if batch_shape is None:
        return []
    first: dict[BatchShape, None] = {}
    seen: Counter[BatchShape] = Counter()
    for rank in range(share.world_size):
        batches = replace(share, rank=rank).train_batches(data, epoch=0, step=0)
        shapes = [batch_shape(indices) for _, indices in itertools.islice(batches, _LOOKED_AT // share.world_size or 1)]
        first[shapes[0]] = None
        seen.update(shapes)
    return list(first | dict.fromkeys(shape for shape, _ in seen.most_common()))


class RepeatingFeed(Generic[B]):
    """The same batches again and again, resident on the device: what is measured is training alone."""

    steps_per_epoch = None
    num_ahead = 0
    can_evaluate = False
    truth = None

    def __init__(
        self,
        batches: list[B],
        *,
        num_classes: int,
        num_samples: tuple[int, int] | None = None,
        warnings: list[Message] | None = None,
    ) -> None:
        self.num_classes, self.num_samples = num_classes, num_samples
        self._warnings = warnings or []
        self._batches = itertools.cycle(batches)

    def shapes_ahead(self) -> list[BatchShape]:
        return []

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        pass

    def next_batch(self) -> B:
        return next(self._batches)

    def restart(self) -> None:
        pass

    def eval_batches(self) -> Iterator[B]:
        return iter(())

    def warnings(self) -> list[Message]:
        new, self._warnings = self._warnings, []
        return new

    def close(self) -> None:
        pass


def repeat_first_batches(feed: Feed[B]) -> RepeatingFeed[B]:
    """Real samples without the cost of reading them."""
    feed.begin_epoch(0)
    batches = [feed.next_batch() for _ in range(min(_CACHED_BATCHES, feed.steps_per_epoch or 1))]
    warnings = feed.warnings()
    feed.close()
    return RepeatingFeed(batches, num_classes=feed.num_classes, num_samples=feed.num_samples, warnings=warnings)


class DataFeed(Generic[B]):
    """A data set, read while the device trains."""

    def __init__(
        self,
        data: Samples | JpegFolder,
        source: Source[B],
        problems: Problems,
        *,
        steps_per_epoch: int,
        find_shapes: Callable[[], list[BatchShape]] = list,
    ) -> None:
        self._source, self._problems = source, problems
        self._find_shapes = find_shapes
        self.steps_per_epoch = steps_per_epoch
        self.num_classes, self.truth = data.num_classes, data.truth
        self.num_samples = data.num_train, data.num_val
        self.num_ahead = source.num_ahead
        self.can_evaluate = data.num_val > 0
        self._training: Stream[B] | None = None
        self._next = (0, 0)
        self._first: list[B] = []
        """The batch that `restart` waited for."""

    def shapes_ahead(self) -> list[BatchShape]:
        return self._find_shapes()

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        """Consecutive epochs are one stream; only a jump opens a new one."""
        if self._training is not None and self._next == (epoch, step):
            return
        self._stop()
        self._next = (epoch, step)
        self._training = self._source.training(epoch=epoch, step=step)

    def next_batch(self) -> B:
        if self._training is None:
            raise RuntimeError("begin_epoch comes first")
        epoch, step = self._next
        self._next = (epoch, step + 1) if step + 1 < self.steps_per_epoch else (epoch + 1, 0)
        return self._first.pop() if self._first else next(self._training)

    def restart(self) -> None:
        """Loaders that fill their queue during a checkpoint would make the steps after it 3 to 6% too fast."""
        if self._training is None:
            return
        self._stop()
        epoch, step = self._next
        self._training = self._source.training(epoch=epoch, step=step)
        self._first = [next(self._training)]

    def eval_batches(self) -> Iterator[B]:
        if not self.can_evaluate:
            return
        self._stop()  # batches prepared while the clock stands still would count as if they had cost nothing
        yield from self._source.evaluation()

    def warnings(self) -> list[Message]:
        return self._problems.take()

    def close(self) -> None:
        self._stop()
        self._source.close()

    def _stop(self) -> None:
        if self._training is not None:
            self._training.close()
            self._training = None
        self._first = []
