"""The part of the workload for the framework `sample`: plain Python."""

from __future__ import annotations

import random


class Line:
    """y = slope * x + offset, fitted to points of y = 3 x - 1 by gradient descent."""

    def __init__(self, *, batch_size: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._batch_size = batch_size
        self.slope = self.offset = 0.0
        self.loss = 0.0

    def step(self, lr: float) -> None:
        inputs = [self._random.uniform(-1.0, 1.0) for _ in range(self._batch_size)]
        errors = [self.slope * x + self.offset - (3.0 * x - 1.0) for x in inputs]
        self.loss = sum(error**2 for error in errors) / self._batch_size
        self.slope -= lr * 2.0 * sum(error * x for error, x in zip(errors, inputs, strict=True)) / self._batch_size
        self.offset -= lr * 2.0 * sum(errors) / self._batch_size
