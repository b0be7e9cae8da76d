"""A launcher: one process on this machine with a lower priority."""

from __future__ import annotations

from trainmark.launch.job import Command, Job, Launcher, Machines, worker_argv, worker_environment


def build_commands(job: Job) -> tuple[Command, ...]:
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    return (Command(argv=("nice", *worker_argv(job)), environment={**alone, **worker_environment(job)}),)


LAUNCHER = Launcher(
    name="sample-nice",
    summary="one process on this machine, started by nice",
    build_commands=build_commands,
    machines=Machines.HERE,
    frameworks=("sample",),
    programs=("nice",),
    max_processes=1,
)
