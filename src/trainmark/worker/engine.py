"""What the measured loop needs of a framework. Nothing here or in the loop knows torch, so a fake can stand in.

Each framework has a module `engine_<name>` with `build_engine(cell) -> Engine`, `is_out_of_memory(error) -> bool` and
`limit_memory(device, num_bytes)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

Timestamp = Any
"""A point in the device's own time. Opaque to the loop: a CUDA event, or a reading of the host's clock."""


class Engine(Protocol):
    rank: int
    world_size: int
    samples_per_step: int
    """Global: of all ranks together."""
    steps_per_epoch: int | None
    """None for data without epochs."""

    def step(self) -> None:
        """Queue one training step. May return before the device has done it."""

    def twin_step(self) -> None:
        """Queue one training step in which the ranks exchange no gradients and no buffers."""

    def why_no_twin(self) -> str | None:
        """Why `twin_step` cannot be had; None where it can."""

    def timestamp(self) -> Timestamp:
        """Note the point in the device's queue behind all that was queued so far. Never waits."""

    def is_done(self, timestamp: Timestamp) -> bool:
        """Whether the device has passed the mark. Never waits."""

    def seconds_between(self, earlier: Timestamp, later: Timestamp) -> float:
        """Time of the device between two marks that are done."""

    def queue_loss(self) -> Any:
        """Ask for the loss of the latest step. Never waits; read it by `read_loss` once a later mark is done."""

    def read_loss(self, handle: Any) -> float: ...

    def wait(self) -> None:
        """Until the device has done everything."""

    def agree(self, gravity: int, numbers: Sequence[int]) -> tuple[int, list[int]]:
        """The same on every rank: the largest gravity, and rank 0's numbers. All must end at the same step."""

    def gather(self, part: Any) -> list[Any]:
        """Every rank's part, in the order of ranks, on every rank."""

    def slowest(self, seconds: float) -> float:
        """The largest of all ranks' values, the same on each; ranks wait for each other here."""

    def gradient_bytes(self) -> int:
        """What each rank gives to the exchange of a step."""

    def time_all_reduce(self, num_bytes: int, *, max_seconds: float) -> list[float]:
        """Seconds of an all-reduce of that size over all ranks, measured several times."""

    def evaluate(self, on_batch: Callable[[], None] = lambda: None) -> Mapping[str, float] | None:
        """The metrics on the validation set; None where there is none. Calls `on_batch` after each batch of it."""

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        """`step` is the one of the epoch to go on at, for a run that is resumed."""

    def save(self, path: Path, progress: Mapping[str, float]) -> None:
        """Everything that the next step depends on, whole or not at all; the same on every rank, written by one."""

    def restore(self, path: Path) -> Mapping[str, float]:
        """Back to what `save` saw; returns its `progress`."""

    def advise_on_bad_loss(self, step: int) -> str:
        """What to try where the loss of a step is no number."""

    def weights_changed(self) -> bool:
        """Whether any weight differs from what it was before the first step."""

    def warnings(self) -> list[tuple[str, str]]:
        """New (code, message) pairs since the last call, such as images that could not be read."""

    def facts(self) -> Mapping[str, Any]:
        """What the run should remember: flags, parameter count, learning rate rule, what `fast` switched on."""

    def peak_memory_bytes(self) -> int | None: ...

    def close(self) -> None: ...
