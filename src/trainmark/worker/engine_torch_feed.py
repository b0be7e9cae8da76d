"""Where a step's batch comes from: made once on the device, decoded once and kept, or read from disk all the time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from trainmark.workloads.card import Card
from trainmark.workloads.registry import load_module

Batch = tuple[Tensor, Tensor]

_CACHED_BATCHES = 16
"""At most: 16 batches of 128 images at 224 are 1.2 GB in fp32."""


class Feed(Protocol):
    @property
    def num_classes(self) -> int: ...
    @property
    def steps_per_epoch(self) -> int | None: ...
    @property
    def can_evaluate(self) -> bool: ...
    def begin_epoch(self, epoch: int) -> None: ...
    def next_batch(self) -> Batch: ...
    def eval_batches(self) -> Iterator[Batch]: ...
    def warnings(self) -> list[tuple[str, str]]: ...
    def close(self) -> None: ...


def build_feed(
    cell: Mapping[str, Any],
    *,
    card: Card,
    device: torch.device,
    rank: int,
    world_size: int,
    input_dtype: torch.dtype,
    channels_last: bool,
) -> Feed:
    if cell["data"] == "synthetic":
        return SyntheticFeed(
            cell, card=card, device=device, rank=rank, input_dtype=input_dtype, channels_last=channels_last
        )
    from trainmark.worker.engine_torch_folder import FolderFeed
    from trainmark.worker.engine_torch_images import Format

    is_cached = cell["data"].startswith("cached:")
    view = load_module(cell["workload"], "data")
    folder = FolderFeed(
        Path(cell["data"].removeprefix("cached:")),
        view=view,
        batch_size=cell["batch_size_per_device"],
        wanted=Format(
            image_size=card.sizes[cell["size"]].image_size,
            mean=view.MEAN,
            std=view.STD,
            dtype=input_dtype,
            channels_last=channels_last,
        ),
        seed=cell["seed"],
        device=device,
        rank=rank,
        world_size=world_size,
    )
    return CachedFeed(folder) if is_cached else folder


class SyntheticFeed:
    """One seeded batch, resident on the device: what is left is the speed of training alone."""

    steps_per_epoch = None
    can_evaluate = False

    def __init__(
        self,
        cell: Mapping[str, Any],
        *,
        card: Card,
        device: torch.device,
        rank: int,
        input_dtype: torch.dtype,
        channels_last: bool,
    ) -> None:
        self.num_classes = card.num_classes
        generator = torch.Generator(device).manual_seed(cell["seed"] * 65_537 + rank)
        inputs, targets = load_module(cell["workload"], "torch").synthetic_batch(
            batch_size=cell["batch_size_per_device"],
            image_size=card.sizes[cell["size"]].image_size,
            num_classes=card.num_classes,
            generator=generator,
        )
        layout = torch.channels_last if channels_last else torch.contiguous_format
        self._batch: Batch = (inputs.to(input_dtype).contiguous(memory_format=layout), targets)

    def begin_epoch(self, epoch: int) -> None:
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

    def __init__(self, folder: Feed) -> None:
        self.num_classes = folder.num_classes
        folder.begin_epoch(0)
        num_batches = min(_CACHED_BATCHES, folder.steps_per_epoch or 1)
        batches = [folder.next_batch() for _ in range(num_batches)]
        self._warnings = folder.warnings()
        folder.close()
        self._batches = itertools.cycle(batches)

    def begin_epoch(self, epoch: int) -> None:
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
