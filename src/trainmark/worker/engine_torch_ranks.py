"""What the ranks of a run do as one, so that none goes on where another cannot."""

from __future__ import annotations

from collections.abc import Callable

from torch import distributed


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
