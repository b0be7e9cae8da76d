"""The state of a training in arrays and JSON, for frameworks without a safe format of their own: Paddle and JAX.

The format, and what is refused when it is read, is in `weights.array_archive`: `--weights` reads these files too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from trainmark.errors import first_line
from trainmark.messages.training import checkpoint_damaged, checkpoint_has_objects, checkpoint_of_another
from trainmark.weights.array_archive import PARTS, ArrayArchiveError, read_archive, write_archive
from trainmark.worker.checkpoint import CheckpointRefusedError


def write_state(state: Mapping[str, Any], file: BinaryIO, *, framework: str) -> None:
    plain = {name: value for name, value in state.items() if name not in PARTS}
    write_archive(file, {part: state[part] for part in PARTS}, plain, framework=framework)


def read_state(path: Path, *, framework: str) -> dict[str, Any]:
    """Of a training in this framework: the other's tensors and optimizer have other names."""
    try:
        with path.open("rb") as file:
            archive = read_archive(file)
            if archive.framework != framework:
                difference = f"written by a training in {archive.framework[:20]}, this one is in {framework}"
                raise CheckpointRefusedError(path, checkpoint_of_another(error=difference))
            arrays = {
                part: {name: array.read() for name, array in found.items()} for part, found in archive.parts.items()
            }
    except OSError as error:
        raise CheckpointRefusedError(path, checkpoint_damaged(error=first_line(error))) from error
    except ArrayArchiveError as error:
        why = checkpoint_has_objects() if error.has_objects else checkpoint_damaged(error=str(error))
        raise CheckpointRefusedError(path, why) from error
    return {**archive.plain, **arrays}
