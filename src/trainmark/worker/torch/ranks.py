"""What the ranks of a run do as one, so that none goes on where another cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import distributed, nn

_MAX_NAMED = 3


def write_on_rank_0(write: Callable[[], None], control: distributed.ProcessGroup | None) -> None:
    """The others wait until it is done: a rank that left early could end the run while the file is half written.

    Where it fails it fails on all with the same words: the others would only see that rank 0 is gone.
    """
    if control is None:
        write()
        return
    failure: Exception | None = None
    if distributed.get_rank() == 0:
        try:
            write()
        except Exception as error:
            failure = error
    told = [None if failure is None else str(failure) or type(failure).__name__]
    distributed.broadcast_object_list(told, src=0, group=control)
    if failure is not None:
        raise failure
    if told[0] is not None:
        raise OSError(told[0])


def copy_statistics_of_rank_0(model: nn.Module) -> None:
    """Each rank keeps its own running statistics in training; a checkpoint holds those of rank 0."""
    for buffer in model.buffers():
        if buffer.is_floating_point():
            distributed.broadcast(buffer, src=0)


def require_same_data(everyone: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Ranks with other data would wait for each other at other steps: they hang, or train something nobody asked for.

    `everyone` has host and facts of each rank. All fail with the same words, since each knows only its own copy.
    """
    different = "; ".join(filter(None, (_describe_difference(name, everyone) for name in everyone[0][1])))
    if different:
        advice = "make the copies of the data set the same (trainmark data check)"
        raise ValueError(f"the ranks see different data: {different}; {advice}")


def _describe_difference(name: str, everyone: Sequence[tuple[str, Mapping[str, Any]]]) -> str | None:
    """None where all ranks have the same."""
    ranks: dict[Any, list[str]] = {}
    for rank, (host, facts) in enumerate(everyone):
        ranks.setdefault(facts[name], []).append(f"rank {rank} on {host}")
    if len(ranks) == 1:
        return None
    return f"{name} " + ", ".join(f"{value} ({_shorten(who)})" for value, who in ranks.items())


def _shorten(names: Sequence[str]) -> str:
    more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
    return ", ".join([*names[:_MAX_NAMED], *more])
