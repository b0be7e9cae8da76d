"""What a launcher declares, gets (a job) and gives (commands). Launchers are pure: only `supervise` starts anything."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePath

from trainmark import mark, observe
from trainmark.runfolder.records import RUN_TAG
from trainmark.spec.cluster import Cluster, Host

WORKER_MODULE = "trainmark.worker.main"
RANK_MODULE = "trainmark.launch.rank_command"
END_MODULE = "trainmark.launch.processes"
_FIRST_PORT, _NUM_PORTS = 15_000, 16_000
"""Below the ports that Linux uses for outgoing connections."""


@dataclass(frozen=True, kw_only=True)
class Job:
    run_id: str
    folder: Path
    python: str
    processes_per_node: int
    num_cores: int
    """Cores of a node to share among the processes of a CPU run; 0 leaves thread counts alone."""
    num_nodes: int = 1
    device: str | None = None
    """`cpu` or `cuda`; None where the command may use either."""
    cluster: Cluster = field(default_factory=Cluster)
    argv: tuple[str, ...] | None = None
    """What each process runs: a command of the user, or None for our worker."""
    is_observed: bool = False
    """Whether the Python processes of a command load the observer."""
    cwd: Path | None = None
    """Where the controller runs; processes on other machines run there too."""
    is_allocated: bool = False
    """The controller runs inside an allocation of Slurm."""
    is_root: bool = False
    inherited: Mapping[str, str] = field(default_factory=dict)
    """Variables of the controller that a process on another machine needs too, such as PYTHONPATH."""

    @property
    def num_processes(self) -> int:
        return self.num_nodes * self.processes_per_node

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Those that this job uses."""
        return self.cluster.hosts[: self.num_nodes]

    @property
    def master_address(self) -> str:
        return self.hosts[0].address if self.hosts else "127.0.0.1"

    @property
    def port(self) -> int:
        """From the run id: the controller cannot ask a remote machine for a free port, and a retry gets another one."""
        digest = hashlib.sha256(self.run_id.encode()).digest()
        return _FIRST_PORT + int.from_bytes(digest[:4]) % _NUM_PORTS


@dataclass(frozen=True, kw_only=True)
class Command:
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of the controller."""
    files: Mapping[str, str] = field(default_factory=dict)
    """To be written into the run folder before the start: name and text."""
    cancel: tuple[str, ...] = ()
    """A command that ends the processes which a signal to ours does not reach."""
    started_file: Path | None = None
    """Appears when a queued job starts, which may take hours; None: it starts at once."""
    exit_file: Path | None = None
    """Holds the exit code once a queued job has ended."""


class Machines(StrEnum):
    """Where a launcher can start processes."""

    HERE = "here"
    """On this machine only."""
    HOSTS = "hosts"
    """On this machine, or on those of --hosts."""
    SCHEDULER = "scheduler"
    """On machines that a batch system chooses."""


class Prints(StrEnum):
    """What a launcher prints instead of starting processes."""

    COMMANDS = "commands"
    MANIFESTS = "manifests"


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """A way to start the processes of a run, and what it can do."""

    name: str
    summary: str
    build_commands: Callable[[Job], tuple[Command, ...]] | None = None
    """None: it leaves the choice of another launcher to `choose`."""
    machines: Machines = Machines.HOSTS
    frameworks: tuple[str, ...] | None = None
    """Those whose processes it can start; None: all."""
    rank_variables: tuple[str, ...] = ("RANK",)
    """Names of the variables with the rank of a process, see `trainmark.rank_environment`; it sets one of them."""
    programs: tuple[str, ...] = ()
    """What must be on the PATH."""
    max_processes: int | None = None
    """None: any number."""
    is_direct: bool = False
    """Its command is the training process itself: there is no launcher process in between."""
    has_one_command: bool = False
    """One command starts the processes on all machines; otherwise there is one command for each of --hosts."""
    prints: Prints | None = None
    """Nothing is started: this is printed."""
    has_own_files: bool = False
    """Processes run in containers, where a path of this machine means nothing."""

    def commands(self, job: Job) -> tuple[Command, ...]:
        assert self.build_commands is not None, f"{self.name} starts nothing"
        return self.build_commands(job)

    def can_start(self, framework: str | None) -> bool:
        """`framework` is None for a command of the user."""
        return framework is None or self.frameworks is None or framework in self.frameworks


def inherited_variables(environment: Mapping[str, str]) -> dict[str, str]:
    known = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES")
    return {name: environment[name] for name in known if name in environment}


def own_python(python: str) -> tuple[str, ...]:
    """To run a module of ours or of the framework. -P: a json.py in the current folder must not shadow the real one."""
    return (python, "-P", "-m")


def worker_argv(job: Job) -> tuple[str, ...]:
    return job.argv or (*own_python(job.python), WORKER_MODULE, str(job.folder))


def ranked_argv(job: Job, launcher: str | None = None) -> tuple[str, ...]:
    """For launchers that do not set the variables of torchrun: `RANK_MODULE` sets them in each process.

    `launcher` is its name in `trainmark.rank_environment`; None if it is not one of those.
    """
    named = () if launcher is None else (f"--launcher={launcher}",)
    return (*own_python(job.python), RANK_MODULE, *named, *worker_argv(job))


def worker_environment(job: Job) -> dict[str, str]:
    environment = {RUN_TAG: job.run_id, "PYTHONUNBUFFERED": "1"}
    if job.argv is not None:
        environment[mark.VARIABLE] = str(job.folder)
    if job.is_observed:
        given = job.cluster.variables.get("PYTHONPATH") or job.inherited.get("PYTHONPATH")
        own = {observe.VARIABLE: str(job.folder), "PYTHONPATH": observe.with_hook(given)}
        return {**_environment_of_run(job, environment), **own}
    return _environment_of_run(job, environment)


def _environment_of_run(job: Job, environment: dict[str, str]) -> dict[str, str]:
    if job.num_cores:
        # By default every rank of a CPU run would use all cores, and they would compete for them.
        environment["OMP_NUM_THREADS"] = str(max(1, job.num_cores // job.processes_per_node))
    return {**environment, **job.cluster.variables}


def ranked_environment(job: Job) -> dict[str, str]:
    local = str(job.processes_per_node)
    return {**worker_environment(job), "MASTER_PORT": str(job.port), "LOCAL_WORLD_SIZE": local}


def on_host(job: Job, host: Host, argv: Sequence[str], environment: Mapping[str, str]) -> Command:
    """`argv` through the remote shell. ssh joins its words and passes them to a shell, so they are quoted for it."""
    where = (f"--chdir={job.cwd}",) if job.cwd is not None else ()
    words = ("env", *where, *(f"{name}={value}" for name, value in {**job.inherited, **environment}.items()), *argv)
    ending = ("env", *(f"{name}={value}" for name, value in job.inherited.items()), *own_python(job.python), END_MODULE)
    return Command(
        argv=_by_shell(job, host, words),
        environment=dict(environment),
        cancel=_by_shell(job, host, (*ending, job.run_id)),
    )


def _by_shell(job: Job, host: Host, words: Sequence[str]) -> tuple[str, ...]:
    shell = tuple(word.replace("{host}", host.name) for word in job.cluster.remote_shell)
    is_ssh = PurePath(shell[0]).name in ("ssh", "rsh")
    return (*shell, *((shlex.join(words),) if is_ssh else words))
