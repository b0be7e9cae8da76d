"""The exception that ended a Python program, found in what its processes printed. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_STYLE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_LINE = re.compile(r"(?:\[(?:rank|default)(?P<rank>\d+)\]: ?|(?P<task>\d+): )?(?P<text>.*)")
"""torch.distributed and torchrun --tee name the rank in front of a line; srun --label names the task."""
_BEGIN = "Traceback (most recent call last):"
_CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct cause")
_FOLLOWS = re.compile(
    r"ChildFailedError|SignalException|CalledProcessError|ProcessRaisedException|ProcessExitedException"
)
"""What a launcher raises because one of its processes failed: it does not name the cause."""


class PrintedError(NamedTuple):
    rank: int | None
    """None if the output does not say it."""
    text: str
    """The line with the type and the message."""


def find_error(output: str, *, first_to_die: int | None, is_reaction: Callable[[str], bool]) -> PrintedError | None:
    """The error of the rank that the launcher saw die first, else the first error that is no reaction to another one.

    `is_reaction`: whether an error only says that another process is gone.
    """
    errors = [error for error in _find_errors(output) if not _FOLLOWS.search(error.text)]
    own = [error for error in errors if error.rank is not None and error.rank == first_to_die]
    causes = [error for error in errors if not is_reaction(error.text)]
    return next(iter([*own, *causes, *errors]), None)


def _find_errors(output: str) -> Iterator[PrintedError]:
    """The last exception of each chain, in the order of the output. Lines of several ranks may be interleaved."""
    inside: set[int | None] = set()
    pending: dict[int | None, str] = {}
    for raw in re.split(r"[\r\n]+", _STYLE.sub("", output)):
        match = _LINE.fullmatch(raw)
        assert match is not None
        number = match["rank"] or match["task"]
        rank, text = (int(number) if number else None), match["text"]
        if text.startswith(_BEGIN):
            if rank in pending and rank not in inside:
                yield PrintedError(rank, pending.pop(rank))
            inside.add(rank)
        elif _CHAINED.search(text):
            pending.pop(rank, None)
        elif rank in inside and text.strip() and not text[0].isspace():
            inside.discard(rank)
            pending[rank] = text.strip()
    for rank, text in pending.items():
        yield PrintedError(rank, text)
