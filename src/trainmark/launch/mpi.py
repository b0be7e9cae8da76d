"""mpirun (Open MPI): one process per device on the machines of a host file, or on this one."""

from __future__ import annotations

from trainmark.launch.job import Command, Job, Launcher, ranked_argv, ranked_environment

HOST_FILE = "hostfile"


def build_commands(job: Job) -> tuple[Command, ...]:
    environment = {**ranked_environment(job), "MASTER_ADDR": job.master_address}
    passed = dict.fromkeys((*job.inherited, *environment))
    argv = (
        "mpirun",
        *(("--allow-run-as-root",) if job.is_root else ()),
        *_where(job),
        "-np",
        str(job.num_processes),
        "--map-by",
        f"ppr:{job.processes_per_node}:node",
        "--bind-to",
        "none",
        "--tag-output",
        *(word for name in passed for word in ("-x", name)),
        *job.cluster.mpi_arguments,
        *ranked_argv(job, "mpi"),
    )
    lines = "".join(f"{host.name} slots={job.processes_per_node}\n" for host in job.hosts)
    return (Command(argv=argv, environment=environment, files={HOST_FILE: lines} if lines else {}),)


def _where(job: Job) -> tuple[str, ...]:
    if job.hosts:
        return ("--hostfile", str(job.folder / HOST_FILE))
    # Open MPI counts cores as slots; a CPU run may have two processes on a machine with one.
    return ("--host", f"localhost:{job.processes_per_node}")


LAUNCHER = Launcher(
    name="mpi",
    summary="mpirun of Open MPI, on this machine or on --hosts",
    build_commands=build_commands,
    rank_variables=("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"),
    programs=("mpirun",),
    has_one_command=True,
)
