"""Checkpoints on disk: written whole or not at all, whatever the framework's format."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from trainmark.messages.message import Message
from trainmark.messages.training import checkpoint_refused
from trainmark.runfolder.files import replacing


class CheckpointRefusedError(Exception):
    """Says why in words of our own: those of a framework advise to load the file without its protection."""

    def __init__(self, path: Path, why: Message) -> None:
        self.reason = checkpoint_refused(name=path.name, why=why)
        super().__init__(self.reason.english)


def write_checkpoint(path: Path, dump: Callable[[BinaryIO], None]) -> None:
    """`dump` writes the framework's format. A full disk is an OSError that says so."""
    try:
        with replacing(path) as file:
            dump(file)
    except (OSError, RuntimeError) as error:
        cause = _find_os_error(error)
        if cause is None:
            raise
        raise OSError(f"the checkpoint could not be written: {cause.strerror or cause}") from error


def remove_unfinished(path: Path) -> None:
    """Remove what processes that were killed while writing this checkpoint left beside it, each as large as it."""
    for beside in path.parent.glob(f".{path.name}.*"):
        with contextlib.suppress(OSError):
            beside.unlink()


def _find_os_error(error: BaseException | None) -> OSError | None:
    """torch's archive fails again when it is closed, and hides a full disk behind an error of its own."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error
