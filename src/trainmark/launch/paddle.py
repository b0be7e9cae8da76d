"""paddle.distributed.launch: Paddle's own launcher, on this machine or once on each of --hosts."""

from __future__ import annotations

from trainmark.launch.job import Command, Job, Launcher, on_host, own_python, ranked_argv, worker_environment

_PRIVATE = "trainmark.worker.paddle.private"
"""Runs Paddle's launcher so that it does not write the environment into the run folder."""


def build_commands(job: Job) -> tuple[Command, ...]:
    environment = worker_environment(job)
    if job.device == "cpu":
        # With a build for GPUs Paddle would choose NCCL.
        environment = {**environment, "PADDLE_DISTRI_BACKEND": "gloo"}
    if not job.hosts:
        return (Command(argv=_argv(job), environment=environment),)
    master = f"--master={job.master_address}:{job.port}"
    return tuple(
        # Its own address: Paddle takes that of its host name, which Debian maps to the loopback address.
        on_host(job, host, _argv(job, master, f"--rank={number}", f"--host={host.address}"), environment)
        for number, host in enumerate(job.hosts)
    )


def _argv(job: Job, *rendezvous: str) -> tuple[str, ...]:
    """Paddle runs a command that does not end in .py as it is, so `python -m` works.

    -- because Paddle otherwise takes `--n` of a script for its `--nnodes`.
    """
    return (
        *own_python(job.python),
        _PRIVATE,
        "paddle.distributed.launch",
        f"--nnodes={job.num_nodes}",
        f"--nproc_per_node={job.processes_per_node}",
        *rendezvous,
        f"--job_id={job.run_id}",
        f"--log_dir={job.folder / 'paddle'}",
        "--enable_gpu_log=0",
        "--max_restart=0",
        "--",
        *ranked_argv(job, "paddle"),
    )


LAUNCHER = Launcher(
    name="paddle",
    summary="paddle.distributed.launch, on this machine or on --hosts",
    build_commands=build_commands,
    frameworks=("paddle",),
    rank_variables=("PADDLE_TRAINER_ID",),
)
