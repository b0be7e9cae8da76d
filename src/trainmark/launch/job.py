"""What a launcher gets and gives: a job in, a command out. Launchers are pure; only `supervise` starts anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainmark import mark

WORKER_MODULE = "trainmark.worker.main"
RUN_TAG = "TRAINMARK_RUN"
"""In the environment of every process of a run, so that clean-up can find all of them and only them."""


@dataclass(frozen=True, kw_only=True)
class Job:
    run_id: str
    folder: Path
    python: str
    num_processes: int
    num_cores: int
    """Cores to share among the processes of a CPU run; 0 leaves thread counts alone."""
    argv: tuple[str, ...] | None = None
    """What each process runs: a command of the user's own, or None for our worker."""


@dataclass(frozen=True, kw_only=True)
class Command:
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of the controller."""


def worker_argv(job: Job) -> tuple[str, ...]:
    return job.argv or (job.python, "-m", WORKER_MODULE, str(job.folder))


def worker_environment(job: Job) -> dict[str, str]:
    environment = {RUN_TAG: job.run_id, "PYTHONUNBUFFERED": "1"}
    if job.argv is not None:
        environment[mark.VARIABLE] = str(job.folder)
    if job.num_cores:
        # Each rank of a CPU run gets its share: with the default every rank would use all cores, and they would fight.
        environment["OMP_NUM_THREADS"] = str(max(1, job.num_cores // job.num_processes))
    return environment
