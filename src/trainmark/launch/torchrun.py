"""Several processes on one machine through torchrun, which picks a free port for the rendezvous itself."""

from __future__ import annotations

from trainmark.launch.job import WORKER_MODULE, Command, Job, worker_environment


def build_command(job: Job) -> Command:
    argv = (
        job.python,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nnodes=1",
        f"--nproc-per-node={job.num_processes}",
        "-m",
        WORKER_MODULE,
        str(job.folder),
    )
    return Command(argv=argv, environment=worker_environment(job))
