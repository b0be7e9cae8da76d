"""What a launcher needs to know of this machine and session: the thin edge around the pure launchers."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from trainmark.cli.output import print_json, talk
from trainmark.errors import InputError
from trainmark.launch.job import Command, Job, Launcher, Machines, inherited_variables
from trainmark.launch.registry import choose, launchers
from trainmark.spec.cluster import Cluster
from trainmark.units import format_count


class Shape(Protocol):
    """How many machines and devices something needs: a cell, a measurement of the network."""

    @property
    def nodes(self) -> int: ...

    @property
    def devices_per_node(self) -> int: ...

    @property
    def device(self) -> str | None: ...


def choose_launcher(name: str, shape: Shape, cluster: Cluster, *, framework: str | None) -> Launcher:
    """`framework` is None for a command of the user's own."""
    chosen = choose(
        name,
        num_nodes=shape.nodes,
        num_processes=shape.devices_per_node,
        framework=framework,
        num_hosts=len(cluster.hosts),
        is_allocated=is_allocated(),
    )
    if chosen.machines is Machines.HERE and cluster.hosts:
        raise InputError(
            f"{chosen.name} starts processes here only", hint="leave out --hosts, or use --launcher torchrun"
        )
    missing = [program for program in chosen.programs if shutil.which(program) is None]
    if missing:
        hint = "install it, or use another --launcher (trainmark list launchers)"
        raise InputError(f"the launcher {chosen.name} needs {' and '.join(missing)}", why="not on the PATH", hint=hint)
    is_told = launchers().load(name).machines is not Machines.SCHEDULER and chosen.machines is Machines.HOSTS
    if is_told and len(cluster.hosts) < shape.nodes > 1:
        why = f"{format_count(shape.nodes, 'nodes')}, {format_count(len(cluster.hosts), 'hosts')}"
        raise InputError(f"{chosen.name} must be told the machines", why=why, hint="give --hosts A,B or --cluster FILE")
    return chosen


def make_job(
    shape: Shape,
    run_id: str,
    folder: Path,
    *,
    cluster: Cluster,
    num_cores: int = 0,
    argv: tuple[str, ...] | None = None,
    processes_per_node: int | None = None,
) -> Job:
    return Job(
        run_id=run_id,
        folder=folder.resolve(),
        python=sys.executable,
        num_nodes=shape.nodes,
        processes_per_node=processes_per_node or shape.devices_per_node,
        num_cores=num_cores,
        device=shape.device,
        cluster=cluster,
        argv=argv,
        cwd=Path.cwd(),
        is_allocated=is_allocated(),
        is_root=os.geteuid() == 0,
        inherited=inherited_variables(os.environ),
    )


def is_allocated() -> bool:
    return "SLURM_JOB_ID" in os.environ


def print_commands(commands: Sequence[Command], *, is_json: bool) -> int:
    """For --launcher dry; the exit code."""
    if is_json:
        facts = [{"argv": list(command.argv), "environment": dict(command.environment)} for command in commands]
        print_json(commands=facts)
    else:
        for command in commands:
            settings = [f"{key}={shlex.quote(value)}" for key, value in command.environment.items()]
            print(" ".join([*settings, shlex.join(command.argv)]))
    talk("dry: nothing was started")
    return 0
