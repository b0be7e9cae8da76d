"""A training's state in one file that holds arrays and JSON and nothing else: reading it runs no code.

An npz archive: arrays under `model/NAME` and `optimizer/NAME`, and everything else as JSON text under `plain`.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from trainmark.messages.training import checkpoint_damaged, checkpoint_has_objects
from trainmark.worker.checkpoint import CheckpointRefusedError, first_line

_PARTS = ("model", "optimizer")
_PLAIN = "plain"


def write_state(state: Mapping[str, Any], file: BinaryIO) -> None:
    arrays = {f"{part}/{name}": array for part in _PARTS for name, array in state[part].items()}
    plain = {name: value for name, value in state.items() if name not in _PARTS}
    text = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    np.savez(file, **arrays, **{_PLAIN: text})  # type: ignore[arg-type]


def read_state(path: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path):  # numpy would read a lone array too
            pass
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        state: dict[str, Any] = json.loads(arrays.pop(_PLAIN).tobytes())
    except ValueError as error:
        if "pickle" in str(error):
            raise CheckpointRefusedError(path, checkpoint_has_objects()) from error
        raise CheckpointRefusedError(path, checkpoint_damaged(error=first_line(error))) from error
    except (EOFError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointRefusedError(path, checkpoint_damaged(error=first_line(error))) from error
    for part in _PARTS:
        prefix = f"{part}/"
        state[part] = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return state
