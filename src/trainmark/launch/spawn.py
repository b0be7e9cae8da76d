"""One process for each device without a framework's launcher: on this machine, or on each of --hosts. For JAX."""

from __future__ import annotations

from trainmark.launch.job import Command, Job, Launcher, on_host, own_python, worker_argv, worker_environment

SPAWN_MODULE = "trainmark.launch.spawn_ranks"


def build_commands(job: Job) -> tuple[Command, ...]:
    environment = worker_environment(job)
    if not job.hosts:
        return (Command(argv=_argv(job), environment=environment),)
    return tuple(
        on_host(
            job, host, _argv(job, f"--node-rank={number}", f"--master={job.master_address}:{job.port}"), environment
        )
        for number, host in enumerate(job.hosts)
    )


def _argv(job: Job, *rendezvous: str) -> tuple[str, ...]:
    """On one machine the processes meet at a free port of the loopback device, which is chosen when they start."""
    size = (f"--nodes={job.num_nodes}", f"--processes={job.processes_per_node}")
    return (*own_python(job.python), SPAWN_MODULE, *size, *rendezvous, "--", *worker_argv(job))


LAUNCHER = Launcher(
    name="spawn",
    summary="one process for each device of JAX, on this machine or on --hosts",
    build_commands=build_commands,
    frameworks=("jax",),
)
