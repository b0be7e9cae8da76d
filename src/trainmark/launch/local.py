"""One process on this machine, without a launcher process."""

from __future__ import annotations

from trainmark.launch.job import Command, Job, Launcher, Machines, worker_argv, worker_environment

_ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}


def build_commands(job: Job) -> tuple[Command, ...]:
    # Overrides what a container may have set. A command of the user may rely on such variables, so it keeps them.
    alone = _ALONE if job.argv is None else {}
    return (Command(argv=worker_argv(job), environment={**alone, **worker_environment(job)}),)


LAUNCHER = Launcher(
    name="local",
    summary="one process on this machine",
    build_commands=build_commands,
    machines=Machines.HERE,
    max_processes=1,
    is_direct=True,
)
