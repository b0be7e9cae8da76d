"""One process on this machine, no launcher in between."""

from __future__ import annotations

from trainmark.launch.job import Command, Job, worker_argv, worker_environment

SUMMARY = "one process on this machine"


def build_commands(job: Job) -> tuple[Command, ...]:
    return (Command(argv=worker_argv(job), environment=worker_environment(job)),)
