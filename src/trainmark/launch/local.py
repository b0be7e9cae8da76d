"""One process on this machine, no launcher in between."""

from __future__ import annotations

from trainmark.launch.job import WORKER_MODULE, Command, Job, worker_environment


def build_command(job: Job) -> Command:
    argv = (job.python, "-m", WORKER_MODULE, str(job.folder))
    return Command(argv=argv, environment=worker_environment(job))
