"""What `workloads/<id>/data.py` offers: a data set as that workload sees it, as arrays on the host. No framework.

    open_pipeline(root, *, size) -> Pipeline

Samples are made in several processes at once. What a sample looks like follows from (seed, epoch, index) alone, so the
same samples are seen however many processes and devices share the work, and a resumed run sees what it would have seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Sample:
    arrays: Mapping[str, NDArray[Any]]
    """By name, as the workload's `collate` expects them; images as uint8."""

    problems: tuple[tuple[str, str], ...] = ()
    """(path, what is wrong) of a file of which only a part could be used."""


class UnusableSampleError(Exception):
    """Nothing of the sample can be used: another takes its place in training, evaluation goes on without it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem


class Pipeline(Protocol):
    @property
    def num_train(self) -> int: ...
    @property
    def num_val(self) -> int: ...
    @property
    def num_classes(self) -> int: ...

    @property
    def truth(self) -> Any:
        """What `metric.summarise` needs beside the scores, such as COCO's annotations; None for most."""

    def order(self, *, seed: int, epoch: int, global_batch: int) -> NDArray[np.int64]:
        """Indices of training samples, `global_batch` of them a step; the last, short one is left out."""

    def train_sample(self, index: int, rng: np.random.Generator) -> Sample: ...
    def eval_sample(self, index: int) -> Sample: ...


def shuffled(num_samples: int, *, seed: int, epoch: int, global_batch: int) -> NDArray[np.int64]:
    """The usual order: every sample once, without the remainder that makes no batch."""
    order = np.random.default_rng([seed, epoch]).permutation(num_samples)
    return order[: num_samples // global_batch * global_batch]
