"""Stores for tests of comparisons: runs of a given speed, of one commit, on one machine."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from making import make_cell, make_run

ENVIRONMENT: dict[str, Any] = {
    "trainmark": "0.1.0", "framework": "torch 2.15.0", "python": "3.12.3", "cpu": "AMD EPYC", "num_cores": 16,
    "memory_bytes": 128 << 30, "hostname": "node0", "system": "Linux-6.18", "packages": {"numpy": "2.4.6"},
    "variables": {}, "gpus": [], "container": None, "training_code": "c0de",
}  # fmt: skip
QUIET = (100.0, 100.2, 99.9)


def make_runs(
    store: Path, speeds: Sequence[float] = QUIET, *, commit: str = "a1", branch: str = "main", cell: Any = None,
    extra: list[dict[str, Any]] | None = None, jitter: float = 0.01, **environment: Any,
) -> list[str]:  # fmt: skip
    """One run per speed, in samples per second; `commit` is repeated to a whole hash."""
    cell = cell or make_cell()
    ids = []
    for speed in speeds:
        store.mkdir(parents=True, exist_ok=True)
        number = len(list(store.iterdir()))
        rng = random.Random(f"{store.name}{number}")
        usual_s = cell.global_batch_size / speed
        seconds = [usual_s * (1 + rng.uniform(-jitter, jitter)) for _ in range(60)]
        seconds = [second * usual_s * len(seconds) / sum(seconds) for second in seconds]
        folder = make_run(store, f"20260101T00{number:04d}-x", cell=cell, seconds=seconds, extra=extra)
        git = {"commit": commit * 20, "branch": branch, "diff_sha256": None}
        (folder / "env.json").write_text(json.dumps({**ENVIRONMENT, "git": git, **environment}))
        ids.append(folder.name)
    return ids


def scaled(factor: float, speeds: Sequence[float] = QUIET) -> list[float]:
    return [factor * speed for speed in speeds]
