"""Launchers by name, and the automatic choice among them. A new one is a file with a `LAUNCHER`, and a line here."""

from __future__ import annotations

from functools import cache

from trainmark import plugins
from trainmark.errors import InputError
from trainmark.launch import kubernetes, local, mpi, paddle, slurm, spawn, torchrun
from trainmark.launch.job import Launcher, Machines, Prints

_BUILT_IN = (
    Launcher(
        name="auto",
        summary="local for one process, slurm inside an allocation of several nodes, else the framework's own launcher",
    ),
    local.LAUNCHER,
    torchrun.LAUNCHER,
    mpi.LAUNCHER,
    slurm.LAUNCHER,
    paddle.LAUNCHER,
    spawn.LAUNCHER,
    kubernetes.LAUNCHER,
    Launcher(name="dry", summary="prints the command that auto would run", prints=Prints.COMMANDS),
)
"""The automatic choice prefers the earlier ones."""


@cache
def launchers() -> plugins.Registry[Launcher]:
    own = plugins.loaders(_BUILT_IN)
    return plugins.Registry(plugins.LAUNCHERS, kind="launcher", built_in=own, check=plugins.expect(Launcher))


def is_direct(name: object) -> bool:
    """Whether the launcher `name`, as recorded in command.json, starts the training process itself."""
    return any(found.value.is_direct for found in launchers().found() if found.name == name)


def choose(
    name: str,
    *,
    num_nodes: int = 1,
    num_processes: int,
    framework: str | None = None,
    num_hosts: int = 0,
    is_allocated: bool = False,
) -> Launcher:
    """`num_processes` is per node; `framework` is None for a command of the user."""
    asked = launchers().load(name)
    total = num_nodes * num_processes
    if asked.build_commands is not None:
        _check_fit(asked, total, framework)
        return asked
    wanted = Machines.HOSTS
    if num_nodes > 1 and not num_hosts and is_allocated:
        wanted = Machines.SCHEDULER
    elif total == 1 and not num_hosts:
        wanted = Machines.HERE
    return _prefer(wanted, framework)


def _check_fit(launcher: Launcher, total: int, framework: str | None) -> None:
    if launcher.max_processes is not None and total > launcher.max_processes:
        why = f"{total} devices need {total} processes, and {launcher.name} starts {launcher.max_processes}"
        raise InputError("the launcher does not fit", why=why, hint="use --launcher torchrun, or leave it out")
    if not launcher.can_start(framework):
        why = f"{launcher.name} starts {', '.join(launcher.frameworks or ())}, not {framework}"
        raise InputError("the launcher does not fit", why=why, hint="leave out --launcher")


def _prefer(machines: Machines, framework: str | None) -> Launcher:
    """A launcher made for the framework, else one that starts any."""
    able = [
        found.value
        for found in launchers().found()
        if found.value.build_commands is not None
        and found.value.machines is machines
        and found.value.can_start(framework)
    ]
    if not able:
        raise InputError(f"no launcher starts {framework} here", hint="see trainmark list launchers")
    return min(able, key=lambda launcher: framework is not None and launcher.frameworks is None)
