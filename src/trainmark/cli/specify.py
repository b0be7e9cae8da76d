"""From what was typed to cells: the same flags for `plan` and `run`, the same meaning as in a TOML file."""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainmark.cli.output import add_json_flag, add_store_flag
from trainmark.controller.launching import is_allocated
from trainmark.errors import Fault, InputError, SpecError
from trainmark.frameworks import frameworks
from trainmark.launch.job import Machines
from trainmark.launch.registry import launchers
from trainmark.messages.message import Message
from trainmark.plan.expand import expand
from trainmark.plan.feasible import Reach, why_not
from trainmark.plan.machine import Machine, read_machine
from trainmark.spec.catalog import Catalog, Offer
from trainmark.spec.cell import Cell
from trainmark.spec.cluster import CLUSTER_KEYS, Cluster, parse_cluster
from trainmark.spec.files import read_toml, shipped_suites
from trainmark.spec.parse import parse_suite, suggest
from trainmark.spec.suite import Suite
from trainmark.workloads.registry import load_cards, workloads

_LIST_FLAGS = {
    "framework": "torch",
    "recipe": "reference, fast",
    "precision": "fp32, tf32, amp, bf16",
    "size": "full, small (some have medium too)",
    "nodes": "number of machines",
    "devices": "devices per machine",
    "batch-size": "samples per device and step",
    "data": "synthetic, cached:DIR or DIR",
}
_NUMBER_FLAGS = {
    "epochs": "train this many epochs, with evaluations, instead of measuring until the speed is known",
    "seed": "of weights, order and augmentation",
    "repeat": "how often each cell is run",
    "max-steps": "stop measuring after this many steps",
}
_FRACTION_FLAGS = {
    "lr": "peak learning rate, instead of the recipe's own for the global batch",
    "target-ci": "stop when the 95%% interval is within this fraction (default 0.01)",
    "min-seconds": "measure at least this long (default 5)",
    "max-seconds": "measure at most this long (default 120)",
    "timeout-s": "end a run that takes longer in all (default: 30 minutes beside the measuring; trainings: none)",
    "hang-least-s": "no step for this long (default 20; a training: 300, a command: 600) and ...",
    "hang-factor": "... for this many usual steps (default 20) is a hang",
}
_WHOLE = ("nodes", "devices", "batch_size")


@dataclass(frozen=True, kw_only=True)
class Plan:
    suite: Suite
    machine: Machine
    cells: tuple[Cell, ...]
    skipped: dict[Cell, Message]
    """Cells that cannot run here, each with the reason."""

    @property
    def runnable(self) -> list[Cell]:
        return [cell for cell in self.cells if cell not in self.skipped]


def add_spec_arguments(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    what = "a workload, a shipped suite or a suite file (see `trainmark list`)"
    parser.add_argument("what", metavar="WHAT", nargs="?" if is_optional else None, help=what)
    axes = parser.add_argument_group("axes (commas sweep: --precision fp32,amp)")
    for name, text in _LIST_FLAGS.items():
        axes.add_argument(f"--{name}", metavar="A,B", help=text)
    axes.add_argument("--device", metavar="KIND", help="cpu or cuda (default: cuda where there is a GPU)")
    how = parser.add_argument_group("how long and how often")
    for name, text in _NUMBER_FLAGS.items():
        how.add_argument(f"--{name}", metavar="N", help=text)
    for name, text in _FRACTION_FLAGS.items():
        how.add_argument(f"--{name}", metavar="X", help=text)
    how.add_argument(
        "--until-target",
        nargs="?",
        const=True,
        metavar="X",
        help="train until the recipe's metric reaches its target (or X, a fraction)",
    )
    where = parser.add_argument_group("where")
    where.add_argument(
        "--launcher", choices=launchers().names(), default="auto", help="how processes start; dry prints the command"
    )
    add_machine_arguments(where)
    add_store_flag(parser)
    add_json_flag(parser)


def add_machine_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--hosts", metavar="A,B", help="machines to use, the first is the master: name or name=address")
    group.add_argument("--cluster", metavar="FILE", help="TOML with the keys of a suite's [cluster] table")


def make_plan(args: argparse.Namespace) -> Plan:
    catalog = read_catalog()
    suite = _read_suite(args.what, read_flags(args), catalog)
    machine = read_machine()
    reach = read_reach(args.launcher, suite.cluster)
    if reach.is_elsewhere and not machine.gpus and any(sweep.device is None for sweep in suite.sweeps):
        why = "this machine has no GPU, and those that will do the work may have some"
        raise InputError("the kind of device must be said", why=why, hint="give --device cuda or --device cpu")
    cells = expand(suite, catalog=catalog, device=machine.best_device)
    for name in dict.fromkeys(cell.framework for cell in cells):
        frameworks().load(name)  # an unknown one, or one of a broken plugin, is an error
    if not launchers().load(args.launcher).has_own_files:
        cells = tuple(replace(cell, data=cell.data.from_here()) for cell in cells)
    skipped = {cell: reason for cell in cells if (reason := why_not(cell, machine, reach)) is not None}
    return Plan(suite=suite, machine=machine, cells=cells, skipped=skipped)


def read_catalog() -> Catalog:
    offers = {
        name: Offer(
            frameworks=card.frameworks,
            recipes=card.recipes,
            sizes=tuple(card.sizes),
            batch_sizes={size: facts.batch_size for size, facts in card.sizes.items()},
            targets=tuple((target.metric, target.value) for target in card.targets),
            epochs=math.ceil(card.schedule.epochs),
        )
        for name, card in load_cards().items()
    }
    nothing = Offer(frameworks=(), recipes=(), sizes=(), batch_sizes={})
    broken = {plugin.name: replace(nothing, problem=str(plugin)) for plugin in workloads().broken()}
    return {**offers, **broken}


def _read_suite(what: str, overrides: dict[str, Any], catalog: Catalog) -> Suite:
    shipped = shipped_suites()
    if what.endswith(".toml"):
        return parse_suite(read_toml(Path(what)), origin=what, catalog=catalog, overrides=overrides)
    if what in shipped:
        return parse_suite(read_toml(shipped[what]), origin=what, catalog=catalog, overrides=overrides)
    if what not in catalog:
        hint = f"{suggest(what, (*catalog, *shipped))}; a suite of your own is a file that ends in .toml"
        raise SpecError("nothing to run", [Fault(where="WHAT", problem=f"{what!r} is not known", hint=hint)])
    return parse_suite({"name": what, "cells": [{"workload": what}]}, origin=what, catalog=catalog, overrides=overrides)


def read_flags(args: argparse.Namespace) -> dict[str, Any]:
    """Flags as the raw values that TOML would hold; what is no number stays text, and the parser says so."""
    values = vars(args)
    found: dict[str, Any] = {}
    for flag in _LIST_FLAGS:
        name = flag.replace("-", "_")
        if values[name] is not None:
            parts = [part.strip() for part in values[name].split(",")]
            found[name] = [_number(part) for part in parts] if name in _WHOLE else parts
    for flag in (*_NUMBER_FLAGS, *_FRACTION_FLAGS):
        name = flag.replace("-", "_")
        if values[name] is not None:
            found[name] = _number(values[name])
    if values["until_target"] is not None:
        found["until_target"] = (
            values["until_target"] if values["until_target"] is True else _number(values["until_target"])
        )
    if values["device"] is not None:
        found["device"] = values["device"]
    return {**found, **_cluster_keys(args)}


def read_cluster_flags(args: argparse.Namespace) -> Cluster:
    """Where there is no suite that could hold one."""
    faults: list[Fault] = []
    cluster = parse_cluster(_cluster_keys(args), faults)
    if faults:
        raise SpecError("the cluster is not right", faults)
    return cluster


def _cluster_keys(args: argparse.Namespace) -> dict[str, Any]:
    found = _read_cluster_file(Path(args.cluster)) if args.cluster is not None else {}
    if args.hosts is not None:
        found["hosts"] = [part.strip() for part in args.hosts.split(",")]
    return found


def _read_cluster_file(path: Path) -> dict[str, Any]:
    """The keys stand at the top of the file, or in its [cluster] table."""
    raw = read_toml(path, what="cluster file")
    table = raw.get("cluster", raw)
    unknown = [key for key in table if key not in CLUSTER_KEYS] if isinstance(table, dict) else ["cluster"]
    if unknown:
        faults = [Fault(where=key, problem="is not a key", hint=f"known: {', '.join(CLUSTER_KEYS)}") for key in unknown]
        raise SpecError(f"{path} does not describe a cluster", faults)
    return dict(table)


def read_reach(name: str, cluster: Cluster) -> Reach:
    launcher = launchers().load(name)
    has_scheduler = launcher.machines is Machines.SCHEDULER
    if has_scheduler and (launcher.prints is not None or not is_allocated()):
        return Reach(num_nodes=None, is_elsewhere=True)
    if cluster.hosts and not has_scheduler:
        return Reach(num_nodes=len(cluster.hosts), is_elsewhere=True)
    is_automatic = launcher.build_commands is None and launcher.prints is None
    if is_allocated() and (has_scheduler or is_automatic):
        num_nodes = _allocated_nodes()
        return Reach(num_nodes=num_nodes, is_elsewhere=has_scheduler or num_nodes > 1)
    return Reach()


def _allocated_nodes() -> int:
    number = os.environ.get("SLURM_JOB_NUM_NODES", "1")
    return int(number) if number.isdigit() else 1


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
