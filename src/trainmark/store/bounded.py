"""Lists that stay small however much is added to them: the memory for reading a file does not grow with the file."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Thinned(Generic[T]):
    """Evenly spaced items of all that were added, with the first and the last: at most twice `most`."""

    def __init__(self, most: int) -> None:
        self._most, self._every, self._num_added = most, 1, 0
        self._kept: list[T] = []
        self._last: list[T] = []

    def add(self, item: T) -> None:
        if self._num_added % self._every == 0:
            self._kept.append(item)
            self._last = []
        else:
            self._last = [item]
        self._num_added += 1
        if len(self._kept) > 2 * self._most:
            self._kept = self._kept[::2]
            self._every *= 2

    @property
    def items(self) -> list[T]:
        return [*self._kept, *self._last]
