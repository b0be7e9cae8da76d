"""torchrun: several processes on this machine, or one torchrun on each of several, started through a remote shell."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.launch.job import Command, Job, Launcher, on_host, own_python, worker_argv, worker_environment

_LOOPBACK = "trainmark.worker.torch.loopback"
"""torchrun whose rendezvous other machines cannot reach; it picks a free port itself."""


def build_commands(job: Job) -> tuple[Command, ...]:
    environment = worker_environment(job)
    if job.num_nodes == 1 and not job.hosts:
        return (Command(argv=_argv(job, module=_LOOPBACK), environment=environment),)
    return tuple(
        on_host(job, host, _argv(job, *_rendezvous(job, number)), environment) for number, host in enumerate(job.hosts)
    )


def _argv(job: Job, *how: str, module: str = "torch.distributed.run") -> tuple[str, ...]:
    each = f"--nproc-per-node={job.processes_per_node}"
    launcher = (*own_python(job.python), module)
    return (*launcher, *how, each, "--max-restarts=0", *program(worker_argv(job)))


def program(argv: Sequence[str]) -> tuple[str, ...]:
    """What each process of torchrun runs. -- because torchrun otherwise takes `--n` of a script for its `--nnodes`."""
    return ("--no-python", "--", *argv)


def _rendezvous(job: Job, number: int) -> tuple[str, ...]:
    nodes = f"--nnodes={job.num_nodes}"
    if job.cluster.rendezvous == "static":
        return (nodes, f"--node-rank={number}", f"--master-addr={job.master_address}", f"--master-port={job.port}")
    # Address and role are explicit: a machine may know itself by another name than the others use.
    return (
        nodes,
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={job.master_address}:{job.port}",
        f"--rdzv-id={job.run_id}",
        f"--rdzv-conf=is_host={int(number == 0)}",
        f"--local-addr={job.hosts[number].address}",
    )


LAUNCHER = Launcher(
    name="torchrun",
    summary="one process for each device, on this machine or on --hosts",
    build_commands=build_commands,
    frameworks=("torch",),
)
