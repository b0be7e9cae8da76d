"""How many workers a person gets who did not say, and a refusal of numbers that make no sense."""

from __future__ import annotations

import os

from trainmark.errors import DataError


def choose_num_workers(asked: int | None) -> int:
    if asked is None:
        # The cores this process may use, which under Slurm or taskset are fewer than the machine has.
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if asked < 1:
        raise DataError(f"{asked} workers cannot do anything", hint="give 1 or more, or leave it out for one per core")
    return asked
