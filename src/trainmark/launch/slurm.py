"""Slurm: srun inside an allocation, else sbatch, which waits for the job and writes its output to the run folder."""

from __future__ import annotations

import shlex
from dataclasses import replace

from trainmark.launch.job import Command, Job, Launcher, Machines, ranked_argv, ranked_environment
from trainmark.launch.rank_command import LEASE
from trainmark.runfolder.files import LEASE_FILE, OUTPUT_FILE

_STARTED_FILE = "slurm_started"
_EXIT_FILE = "slurm_exit"


def build_commands(job: Job) -> tuple[Command, ...]:
    # Slurm gives each task its cores; the machine it runs on may have a different number than this one.
    ours = replace(job, num_cores=0)
    environment = {**ranked_environment(ours), LEASE: str(job.folder / LEASE_FILE)}
    # Empty: Slurm's first node. A value from an outer shell belongs to another job.
    environment["MASTER_ADDR"] = job.master_address if job.hosts else ""
    return (_srun(job, environment) if job.is_allocated else _sbatch(job, environment),)


def _srun(job: Job, environment: dict[str, str]) -> Command:
    return Command(
        argv=(*_step(job), *job.cluster.slurm_arguments, *ranked_argv(job, "slurm")), environment=environment
    )


def _sbatch(job: Job, environment: dict[str, str]) -> Command:
    argv = (
        "sbatch",
        "--wait",
        "--parsable",
        *_size(job),
        f"--output={str(job.folder / OUTPUT_FILE).replace('%', '%%')}",  # a pattern
        "--no-requeue",  # it would restart in the same folder; a pre-empted run is retried as a new run
        "--open-mode=append",
        "--export=ALL",
        *job.cluster.slurm_arguments,
        f"--wrap={_script(job)}",
    )
    cancel = ("scancel", f"--name={job.run_id}")
    return Command(
        argv=argv,
        environment=environment,
        cancel=cancel,
        started_file=job.folder / _STARTED_FILE,
        exit_file=job.folder / _EXIT_FILE,
    )


def _script(job: Job) -> str:
    """Start and exit code go into files: `sbatch --wait` polls the queue only every half minute.

    Since Slurm 22.05 srun takes the cores per task from SRUN_CPUS_PER_TASK instead of SLURM_CPUS_PER_TASK.
    """
    step = shlex.join((*_step(job), *ranked_argv(job, "slurm")))
    started, code = (shlex.quote(str(job.folder / name)) for name in (_STARTED_FILE, _EXIT_FILE))
    cores = '[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"'
    return f"{cores}; : > {started}; {step}; code=$?; echo $code > {code}.part; mv {code}.part {code}; exit $code"


def _step(job: Job) -> tuple[str, ...]:
    """One dead process ends the others; each line of output starts with its task."""
    return ("srun", *_size(job), "--kill-on-bad-exit=1", "--label", "--unbuffered", "--export=ALL")


def _size(job: Job) -> tuple[str, ...]:
    per_node = job.processes_per_node
    gpus = (f"--gpus-per-node={per_node}",) if job.device == "cuda" else ()
    # --ntasks too: without it, srun takes the number of tasks from the allocation.
    tasks = (f"--ntasks={job.num_processes}", f"--ntasks-per-node={per_node}")
    return (f"--job-name={job.run_id}", f"--nodes={job.num_nodes}", *tasks, *gpus)


LAUNCHER = Launcher(
    name="slurm",
    summary="srun inside an allocation, sbatch outside of one",
    build_commands=build_commands,
    machines=Machines.SCHEDULER,
    rank_variables=("SLURM_PROCID",),
    programs=("srun", "sbatch"),
    has_one_command=True,
)
