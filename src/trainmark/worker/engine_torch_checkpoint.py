"""Checkpoints: tensors and plain numbers, written whole or not at all, read without running any code in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

State = dict[str, Any]


def write_checkpoint(path: Path, state: State) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


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
