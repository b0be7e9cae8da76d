"""Checkpoints: tensors and plain numbers, written whole or not at all, read without running any code in them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainmark.runfolder.files import replacing

State = dict[str, Any]


def write_checkpoint(path: Path, state: State) -> None:
    try:
        with replacing(path) as file:
            torch.save(state, file)
    except (OSError, RuntimeError) as error:
        cause = _find_os_error(error)
        if cause is None:
            raise
        raise OSError(f"the checkpoint could not be written: {cause.strerror or cause}") from error


def remove_unfinished(path: Path) -> None:
    """What processes that were killed while they wrote this checkpoint have left beside it, each as large as it."""
    for beside in path.parent.glob(f".{path.name}.*"):
        with contextlib.suppress(OSError):
            beside.unlink()


def _find_os_error(error: BaseException | None) -> OSError | None:
    """torch's archive fails once more when it is closed, and hides a full disk behind an error of its own."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


def read_checkpoint(path: Path, device: torch.device) -> State:
    """`weights_only`: a file that holds anything but tensors and plain values is refused."""
    state: State = torch.load(path, map_location=device, weights_only=True)
    return state


def read_randomness(device: torch.device) -> list[Tensor]:
    """Of this process: dropout and sampling go on where they were."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def set_randomness(states: list[Tensor], device: torch.device) -> None:
    torch.set_rng_state(states[0].cpu())
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1].cpu(), device)
