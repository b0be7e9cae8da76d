"""One process on this machine, no launcher in between."""

from __future__ import annotations

from trainmark.launch.job import Command, Job, worker_argv, worker_environment

SUMMARY = "one process on this machine"


_ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}


def build_commands(job: Job) -> tuple[Command, ...]:
    # A container may set these for a process that it takes for one of several; a command of somebody's own may mean it.
    alone = _ALONE if job.argv is None else {}
    return (Command(argv=worker_argv(job), environment={**alone, **worker_environment(job)}),)
