"""What the processes of a run do as one, so that none continues where another cannot.

`Ranks` needs two operations of a framework; the rest is built on them. All of it runs on the host: a collective on the
device would have to be waited for, and its queue would run dry.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from trainmark import rank_environment
from trainmark.runfolder.document import WorkloadCell
from trainmark.units import format_count

T = TypeVar("T")

_MAX_NAMED = 3

_NUM_SAMPLES = 7
_SAMPLE_S = 0.02
"""Short exchanges are repeated back to back until they last this long: one alone is shorter than the clocks agree."""
_MAX_REPEATS = 200


class Ranks(ABC):
    def __init__(self, *, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size

    # -- what a framework implements -----------------------------------------------------------------------------------

    @abstractmethod
    def maximum(self, values: Sequence[float]) -> list[float]:
        """The largest of all ranks' values, position by position, the same on every rank. Waits for all ranks."""

    @abstractmethod
    def gather(self, part: T) -> list[T]:
        """Every rank's part, in the order of ranks, on every rank.

        Parts are None, numbers, texts, numpy arrays, and lists and dictionaries of them: what any framework can send
        without pickle. A tuple may arrive as a list.
        """

    def gather_on_first(self, part: T) -> list[T]:
        """As `gather`, for large parts: only rank 0 needs to receive them."""
        return self.gather(part)

    def broadcast(self, value: T) -> T:
        """Rank 0's value on every rank."""
        return self.gather(value)[0]

    def close(self) -> None:  # noqa: B027 - a single process has nothing to leave
        """Leave the group of processes."""

    # -- what follows from it ------------------------------------------------------------------------------------------

    def agree(self, gravity: int, numbers: Sequence[int]) -> tuple[int, list[int]]:
        """The largest gravity, and rank 0's numbers, which are not negative."""
        own = numbers if self.rank == 0 else [0] * len(numbers)
        agreed, *of_first = (int(value) for value in self.maximum([gravity, *own]))
        return agreed, of_first

    def slowest(self, seconds: float) -> float:
        return self.maximum([seconds])[0]

    def run_on_first(self, work: Callable[[], None]) -> None:
        """Run `work` on rank 0 while the others wait; where it fails, it fails on all ranks with the same message.

        A rank that went on early could end the run while rank 0 is still writing.
        """
        failure: Exception | None = None
        if self.rank == 0:
            try:
                work()
            except Exception as error:
                failure = error
        message = self.broadcast(None if failure is None else str(failure) or type(failure).__name__)
        if failure is not None:
            raise failure
        if message is not None:
            raise OSError(message)


class SingleRank(Ranks):
    """A run of one process."""

    def __init__(self) -> None:
        super().__init__(rank=0, world_size=1)

    def maximum(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def gather(self, part: T) -> list[T]:
        return [part]


def read_rank(cell: WorkloadCell) -> tuple[int, int]:
    """Rank and number of ranks, as the launcher says; ValueError where they are not as many as the cell asks for."""
    world_size = rank_environment.read("WORLD_SIZE", os.environ, default=1)
    if world_size != cell.nodes * cell.devices_per_node:
        wanted = f"{cell.nodes} x {cell.devices_per_node}"
        started = format_count(world_size, "processes")
        raise ValueError(f"{wanted} processes are needed, but the launcher started {started}")
    return rank_environment.read("RANK", os.environ, default=0), world_size


def sample_exchange(run: Callable[[int], float], max_seconds: float) -> list[float]:
    """Seconds of one exchange between the ranks, measured at least once, and until `max_seconds` are spent.

    `run` makes so many exchanges and says how long the slowest rank took. Every decision uses times that all ranks
    agreed on, so that all ranks decide the same.
    """
    first_s = run(1)  # also opens connections
    warm_s = run(1) if first_s < max_seconds else first_s
    num = max(1, min(_MAX_REPEATS, int(_SAMPLE_S / max(warm_s, 1e-9))))
    samples: list[float] = []
    spent_s = 0.0
    while not samples or (len(samples) < _NUM_SAMPLES and spent_s < max_seconds):
        took_s = run(num)
        spent_s += took_s
        samples.append(took_s / num)
    return samples


def require_same_data(everyone: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Ranks with different data would wait for each other at different steps: they hang or train something else.

    `everyone` has the host and the facts of each rank. All ranks fail with the same message, since each knows only its
    own copy of the data.
    """
    different = "; ".join(filter(None, (_describe_difference(name, everyone) for name in everyone[0][1])))
    if different:
        advice = "make the copies of the data set the same (trainmark data check)"
        raise ValueError(f"the ranks see different data: {different}; {advice}")


def _describe_difference(name: str, everyone: Sequence[tuple[str, Mapping[str, Any]]]) -> str | None:
    """None if all ranks have the same."""
    ranks: dict[Any, list[str]] = {}
    for rank, (host, facts) in enumerate(everyone):
        ranks.setdefault(facts[name], []).append(f"rank {rank} on {host}")
    if len(ranks) == 1:
        return None
    return f"{name} " + ", ".join(f"{value} ({_shorten(who)})" for value, who in ranks.items())


def _shorten(names: Sequence[str]) -> str:
    more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
    return ", ".join([*names[:_MAX_NAMED], *more])
