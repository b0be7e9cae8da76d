"""Launchers by name. A new one is a new file with SUMMARY and `build_commands(job)`, and a line here."""

from __future__ import annotations

from collections.abc import Callable

from trainmark.errors import InputError
from trainmark.launch import local, mpi, paddle, slurm, torchrun
from trainmark.launch.job import Command, Job

Launcher = Callable[[Job], tuple[Command, ...]]

_MODULES = {"local": local, "torchrun": torchrun, "mpi": mpi, "slurm": slurm, "paddle": paddle}
LAUNCHERS: dict[str, Launcher] = {name: module.build_commands for name, module in _MODULES.items()}
RENDERERS = ("dry", "kubernetes")
"""These print what would be started, and start nothing."""
SUMMARIES = {
    "auto": "local for one process, slurm inside an allocation of several nodes, else torchrun",
    **{name: module.SUMMARY for name, module in _MODULES.items()},
    "kubernetes": "prints the manifest of a PyTorchJob or JobSet for each run",
    "dry": "prints the command that auto would run",
}
CHOICES = tuple(SUMMARIES)
PROGRAMS = {"mpi": ("mpirun",), "slurm": ("srun", "sbatch")}
"""What must be on the PATH."""


def choose(name: str, *, num_nodes: int = 1, num_processes: int, num_hosts: int = 0, is_allocated: bool = False) -> str:
    """`num_processes` is for each node. `local` cannot start several; one process needs no torchrun."""
    total = num_nodes * num_processes
    if name == "local" and total > 1:
        why = f"{total} devices need {total} processes, and local starts one"
        raise InputError("the launcher does not fit", why=why, hint="use --launcher torchrun, or leave it out")
    if name not in ("auto", *RENDERERS):
        return name
    if num_nodes > 1 and not num_hosts and is_allocated:
        return "slurm"
    return "local" if total == 1 and not num_hosts else "torchrun"
