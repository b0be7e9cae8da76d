"""Several processes on one machine through torchrun, which picks a free port for the rendezvous itself."""

from __future__ import annotations

from trainmark.launch.job import Command, Job, worker_argv, worker_environment


def build_command(job: Job) -> Command:
    argv = (
        job.python,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nnodes=1",
        f"--nproc-per-node={job.num_processes}",
        "--no-python",
        *worker_argv(job),
    )
    return Command(argv=argv, environment=worker_environment(job))
