"""The machine under us, by the standard library alone: read by the plan before a run and by the worker inside it."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def num_processors() -> int | None:
    """Sockets of the box; None where the kernel does not say (ARM, containers that hide it)."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return len({line.partition(":")[2].strip() for line in lines if line.startswith("physical id")}) or None


def num_cores() -> int:
    """Cores this process may use, not those of the box: containers and Slurm limit it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
