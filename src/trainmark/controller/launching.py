"""What a launcher needs to know about this machine and session: the thin edge around the pure launchers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trainmark.controller.results import refuse_file
from trainmark.errors import InputError
from trainmark.launch.job import Command, Job, Launcher, Machines, Prints, inherited_variables
from trainmark.launch.registry import choose, launchers
from trainmark.plan.command import node_names
from trainmark.plan.feasible import Reach
from trainmark.plan.identity import new_run_id
from trainmark.spec.cell import Cell
from trainmark.spec.cluster import Cluster, Host
from trainmark.units import format_count

if TYPE_CHECKING:
    from trainmark.controller.execute import Task
    from trainmark.launch.kubernetes import PodJob


class Shape(Protocol):
    """How many machines and devices something needs: a cell, or a measurement of the network."""

    @property
    def nodes(self) -> int: ...

    @property
    def devices_per_node(self) -> int: ...

    @property
    def device(self) -> str | None: ...


def choose_launcher(name: str, shape: Shape, cluster: Cluster, *, framework: str | None) -> Launcher:
    """The launcher that `auto` stands for; an error if it cannot start this. `framework` is None for a command."""
    chosen = choose(
        name,
        num_nodes=shape.nodes,
        num_processes=shape.devices_per_node,
        framework=framework,
        num_hosts=len(cluster.hosts),
        is_allocated=is_allocated(),
    )
    if chosen.machines is Machines.HERE and cluster.hosts:
        hint = "leave out --hosts, or use --launcher torchrun"
        raise InputError(f"--launcher {chosen.name} starts processes on this machine only", hint=hint)
    missing = [program for program in chosen.programs if shutil.which(program) is None]
    if missing:
        hint = "install it, or use another --launcher (see `trainmark list launchers`)"
        raise InputError(
            f"--launcher {chosen.name} needs {' and '.join(missing)}", why="not found on the PATH", hint=hint
        )
    needs_hosts = launchers().load(name).machines is not Machines.SCHEDULER and chosen.machines is Machines.HOSTS
    if needs_hosts and len(cluster.hosts) < shape.nodes > 1:
        why = f"{format_count(shape.nodes, 'nodes')}, {format_count(len(cluster.hosts), 'hosts')}"
        raise InputError(
            f"--launcher {chosen.name} needs host names", why=why, hint="pass --hosts A,B or --cluster FILE"
        )
    return chosen


def name_hosts(name: str, shape: Shape, cluster: Cluster) -> Cluster:
    """A dry run prints the commands for machines that nobody named too, with names to be replaced."""
    is_dry = launchers().load(name).prints is Prints.COMMANDS
    if not is_dry or shape.nodes <= max(1, len(cluster.hosts)) or is_allocated():
        return cluster
    return replace(cluster, hosts=tuple(Host.parse(node) for node in node_names(shape.nodes)))


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
    """Inside an allocation of Slurm."""
    return "SLURM_JOB_ID" in os.environ


def read_reach(name: str, cluster: Cluster) -> Reach:
    """How many machines the launcher can use, and whether they are other machines than this one."""
    launcher = launchers().load(name)
    if launcher.prints is Prints.COMMANDS:
        return Reach(num_nodes=None, is_elsewhere=True)
    has_scheduler = launcher.machines is Machines.SCHEDULER
    is_automatic = launcher.build_commands is None and launcher.prints is None
    if has_scheduler and (launcher.prints is not None or not is_allocated()):
        return Reach(num_nodes=None, is_elsewhere=True)
    if cluster.hosts and not has_scheduler:
        return Reach(num_nodes=len(cluster.hosts), is_elsewhere=True)
    if is_allocated() and (has_scheduler or is_automatic):
        number = os.environ.get("SLURM_JOB_NUM_NODES", "1")
        num_nodes = int(number) if number.isdigit() else 1
        return Reach(num_nodes=num_nodes, is_elsewhere=has_scheduler or num_nodes > 1)
    return Reach()


def dry_commands(tasks: Sequence[Task], store: Path) -> list[Command]:
    """What would be started, in a run folder named RUN."""
    refuse_file(store)
    jobs = [(launchers().load(task.launcher), task.job("RUN", store / "RUN")) for task in tasks]
    return [command for launcher, job in jobs for command in launcher.commands(job)]


def pod_manifests(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    from trainmark.launch.kubernetes import render

    return [render(_pod_job(task)) for task in tasks]


def _pod_job(task: Task) -> PodJob:
    from trainmark.launch.kubernetes import PodJob

    cell = task.cell
    if not isinstance(cell, Cell):
        hint = "use it with a workload or a suite"
        raise InputError("--launcher kubernetes cannot be combined with a command", hint=hint)
    cluster = task.job("RUN", Path()).cluster
    return PodJob(
        run_id=new_run_id(cell),
        run=task.document.to_json(),
        framework=cell.framework,
        device=cell.device,
        num_nodes=cell.nodes,
        processes_per_node=cell.devices_per_node,
        timeout_s=task.timeout_s,
        image=cluster.image,
        store_claim=cluster.volume,
        data_claim=cluster.data_volume,
        data_path=cell.data.path,
        namespace=cluster.namespace,
        job_kind=cluster.job_kind,
        environment=cluster.variables,
        resources=cluster.resources,
    )
