"""Where a step's batch comes from: made once on the device, decoded once and kept, or read from disk all the time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils import _pytree

from trainmark.worker.torch.workload import Batch, TorchWorkload
from trainmark.workloads.card import Card, Size
from trainmark.workloads.registry import load_module

_CACHED_BATCHES = 16
"""At most: 16 batches of 128 images at 224 are 1.2 GB in fp32."""


class Feed(Protocol):
    @property
    def num_classes(self) -> int: ...
    @property
    def steps_per_epoch(self) -> int | None: ...
    @property
    def num_samples(self) -> tuple[int, int] | None:
        """Of the data set, for training and for validation; None where the batch is made up."""

    @property
    def can_evaluate(self) -> bool: ...
    @property
    def truth(self) -> Any:
        """What the metric needs beside the scores."""

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        """`step` is the one of the epoch to go on at, for a run that is resumed."""

    def next_batch(self) -> Batch: ...
    def eval_batches(self) -> Iterator[Batch]:
        """Every validation sample once over all ranks; the last batch may be short, none is padded."""

    def warnings(self) -> list[tuple[str, str]]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class FeedRequest:
    """What every feed must know."""

    workload: TorchWorkload
    card: Card
    size: Size
    batch_size: int
    seed: int
    device: torch.device
    rank: int
    world_size: int
    input_dtype: torch.dtype
    channels_last: bool

    @property
    def global_batch(self) -> int:
        return self.batch_size * self.world_size


def build_feed(cell: Mapping[str, Any], request: FeedRequest) -> Feed:
    if cell["data"] == "synthetic":
        return SyntheticFeed(request)
    is_cached = cell["data"].startswith("cached:")
    root = Path(cell["data"].removeprefix("cached:"))
    feed = _open_folder(root, cell["workload"], request)
    return CachedFeed(feed) if is_cached else feed


def _open_folder(root: Path, workload: str, request: FeedRequest) -> Feed:
    data = load_module(workload, "data")
    if hasattr(data, "open_pipeline"):
        from trainmark.worker.torch.pipeline import PipelineFeed

        return PipelineFeed(data.open_pipeline(root, size=request.size), request)
    from trainmark.worker.torch.folder import FolderFeed

    return FolderFeed(root, view=data, request=request)


class SyntheticFeed:
    """One seeded batch, resident on the device: what is left is the speed of training alone."""

    steps_per_epoch = None
    num_samples = None
    can_evaluate = False
    truth = None

    def __init__(self, request: FeedRequest) -> None:
        self.num_classes = request.card.num_classes
        generator = torch.Generator(request.device).manual_seed(request.seed * 65_537 + request.rank)
        batch = request.workload.synthetic_batch(
            batch_size=request.batch_size, size=request.size, num_classes=self.num_classes, generator=generator
        )
        layout = torch.channels_last if request.channels_last else torch.contiguous_format

        def as_input(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point() or tensor.dim() != 4:
                return tensor
            return tensor.to(request.input_dtype).contiguous(memory_format=layout)

        self._batch: Batch = _pytree.tree_map_only(Tensor, as_input, batch)

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        pass

    def next_batch(self) -> Batch:
        return self._batch

    def eval_batches(self) -> Iterator[Batch]:
        return iter(())

    def warnings(self) -> list[tuple[str, str]]:
        return []

    def close(self) -> None:
        pass


class CachedFeed:
    """The real pipeline once, then its batches again and again: real images without the cost of reading them."""

    steps_per_epoch = None
    can_evaluate = False
    truth = None

    def __init__(self, folder: Feed) -> None:
        self.num_classes = folder.num_classes
        self.num_samples = folder.num_samples
        folder.begin_epoch(0)
        num_batches = min(_CACHED_BATCHES, folder.steps_per_epoch or 1)
        batches = [folder.next_batch() for _ in range(num_batches)]
        self._warnings = folder.warnings()
        folder.close()
        self._batches = itertools.cycle(batches)

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        pass

    def next_batch(self) -> Batch:
        return next(self._batches)

    def eval_batches(self) -> Iterator[Batch]:
        return iter(())

    def warnings(self) -> list[tuple[str, str]]:
        new, self._warnings = self._warnings, []
        return new

    def close(self) -> None:
        pass
