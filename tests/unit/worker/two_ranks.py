"""Two processes that meet over gloo, without a launcher and without a training."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from torch import distributed


def on_two_ranks(folder: Path, work: Callable[..., Any], *given: Any) -> list[Any]:
    """What `work(rank, control, *given)` returned on each; it must be a function of a module, by name."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(_join_and_work, folder / "rendezvous", rank, work, given) for rank in range(2)]
        return [part.result(timeout=120) for part in parts]


def _join_and_work(rendezvous: Path, rank: int, work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    try:
        return work(rank, distributed.new_group(backend="gloo"), *given)
    finally:
        distributed.destroy_process_group()
