"""Slurm: srun inside an allocation, else sbatch, which waits for the job and leaves its output in the run folder."""

from __future__ import annotations

import shlex
from dataclasses import replace

from trainmark.launch.job import Command, Job, Launcher, Machines, ranked_argv, ranked_environment
from trainmark.launch.rank_command import LEASE
from trainmark.runfolder.files import LEASE_FILE, OUTPUT_FILE

_STARTED_FILE = "slurm_started"
_EXIT_FILE = "slurm_exit"


def build_commands(job: Job) -> tuple[Command, ...]:
    # Threads are left to Slurm, which gives each task its cores: those of this machine may be other ones.
    ours = replace(job, num_cores=0)
    environment = {**ranked_environment(ours), LEASE: str(job.folder / LEASE_FILE)}
    # Empty: Slurm's first node. What an outer shell has there is another's.
    environment["MASTER_ADDR"] = job.master_address if job.hosts else ""
    return (_srun(job, environment) if job.is_allocated else _sbatch(job, environment),)


def _srun(job: Job, environment: dict[str, str]) -> Command:
    return Command(argv=(*_step(job), *job.cluster.slurm_arguments, *ranked_argv(job)), environment=environment)


def _sbatch(job: Job, environment: dict[str, str]) -> Command:
    argv = (
        "sbatch",
        "--wait",
        "--parsable",
        *_size(job),
        f"--output={str(job.folder / OUTPUT_FILE).replace('%', '%%')}",  # a pattern
        "--no-requeue",  # it would begin again in the same folder; a run that was pre-empted is tried again as another
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
    """Beginning and exit code go into files: `sbatch --wait` looks at the queue only every half minute.

    The cores that sbatch was asked for reach the step by a variable of its own since Slurm 22.05.
    """
    step = shlex.join((*_step(job), *ranked_argv(job)))
    started, code = (shlex.quote(str(job.folder / name)) for name in (_STARTED_FILE, _EXIT_FILE))
    cores = '[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"'
    return f"{cores}; : > {started}; {step}; code=$?; echo $code > {code}.part; mv {code}.part {code}; exit $code"


def _step(job: Job) -> tuple[str, ...]:
    """One dead process ends the others; each line of output says whose it is."""
    return ("srun", *_size(job), "--kill-on-bad-exit=1", "--label", "--unbuffered", "--export=ALL")


def _size(job: Job) -> tuple[str, ...]:
    per_node = job.processes_per_node
    gpus = (f"--gpus-per-node={per_node}",) if job.device == "cuda" else ()
    # --ntasks too: inside an allocation srun would take the number of its tasks from there.
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
