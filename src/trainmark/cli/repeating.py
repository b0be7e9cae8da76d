"""The command that adds runs to a store: the one that started the runs there, with another number of repeats."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from trainmark.cli.parser import DEFAULT_STORE

_MANY = 10
"""More runs than this may take hours: the number is said before the command, which is copied without reading."""


def repeat_command(asked: str | None, num: int, *, store: str | None = None) -> str | None:
    """`asked`: the command line that started a run. None if it is not known, or was not `trainmark run`.

    `store`: the one that needs the runs. The store may have been moved, or named from another folder, since `asked`
    was typed. None keeps what `asked` has.
    """
    try:
        words = shlex.split(asked or "")
    except ValueError:
        return None
    if words[:2] != ["trainmark", "run"]:
        return None
    end = words.index("--") if "--" in words else len(words)
    own, command = _without(words[2:end], "--repeat"), words[end:]
    if store is not None:
        own = [*_without(own, "--store"), *([] if Path(store) == Path(DEFAULT_STORE) else ["--store", store])]
    return shlex.join(["trainmark", "run", *own, "--repeat", str(num), *command])


def _without(words: Sequence[str], option: str) -> list[str]:
    return [
        word
        for place, word in enumerate(words)
        if word != option and not word.startswith(f"{option}=") and (place == 0 or words[place - 1] != option)
    ]


def say_many(command: str, num: int) -> str:
    """`about 81 more runs: trainmark run ... --repeat 81`; few runs need no such warning."""
    return command if num <= _MANY else f"about {num} more runs: {command}"
