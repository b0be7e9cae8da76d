"""Launchers by name. A new one is a new file with `build_command(job)` and a line here."""

from __future__ import annotations

from collections.abc import Callable

from trainmark.errors import InputError
from trainmark.launch import local, torchrun
from trainmark.launch.job import Command, Job

Launcher = Callable[[Job], Command]

LAUNCHERS: dict[str, Launcher] = {"local": local.build_command, "torchrun": torchrun.build_command}
CHOICES = ("auto", *LAUNCHERS, "dry")
"""`dry` prints the command that `auto` would run, and runs nothing."""


def choose(name: str, *, num_processes: int) -> str:
    """`local` cannot start several processes; one process needs no torchrun."""
    if name == "local" and num_processes > 1:
        why = f"{num_processes} devices need {num_processes} processes, and local starts one"
        raise InputError("the launcher does not fit", why=why, hint="use --launcher torchrun, or leave it out")
    if name in ("auto", "dry"):
        return "local" if num_processes == 1 else "torchrun"
    return name
