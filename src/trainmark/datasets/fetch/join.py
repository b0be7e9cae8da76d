"""Parts in the given order become one file. A part is removed when it is in, so that only one is ever there twice."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from trainmark.datasets.fetch.checksum import OnBytes
from trainmark.datasets.fetch.download import part_file, state_file
from trainmark.datasets.fetch.partial import State, save_state
from trainmark.errors import DataError

_COPY_BYTES = 2**23


def join_parts(partial: Path, state: State, on_bytes: OnBytes) -> None:
    """An interrupted join goes on at the part it was at."""
    total = sum(part.num_done for part in state.parts)
    try:
        with partial.open("r+b") as joined:
            while state.num_joined < len(state.parts):
                joined.truncate(state.joined_bytes)
                joined.seek(0, os.SEEK_END)
                source = part_file(partial, state.num_joined)
                with source.open("rb") as part:
                    shutil.copyfileobj(part, joined, _COPY_BYTES)
                joined.flush()
                state.num_joined += 1
                save_state(state_file(partial), state)
                source.unlink()
                on_bytes(state.joined_bytes, total)
            joined.truncate(state.joined_bytes)
            os.fsync(joined.fileno())
    except OSError as error:
        raise DataError(
            f"the parts of {partial} cannot be joined",
            why=error.strerror or str(error),
            hint="free some space or mend that, then run the same command again: it goes on where it was",
        ) from error
