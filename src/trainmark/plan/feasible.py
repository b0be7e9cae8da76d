"""Why a cell cannot run on this machine, with the next action; None if it can."""

from __future__ import annotations

from dataclasses import dataclass

from trainmark.errors import InputError
from trainmark.frameworks import frameworks
from trainmark.messages.message import Message
from trainmark.messages.skips import (
    framework_for_cpus_only,
    framework_missing,
    no_fast_paddle,
    no_gpu,
    no_precision,
    no_precision_on_cpu,
    no_recipe,
    tf32_on_cpu,
    too_few_cores,
    too_few_gpus,
    too_few_nodes,
)
from trainmark.plan.machine import Machine
from trainmark.spec.catalog import Offer
from trainmark.spec.cell import Cell


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Which machines the launcher can use."""

    num_nodes: int | None = 1
    """None: unknown, because a batch system has them."""
    is_elsewhere: bool = False
    """Processes start on other machines; the preflight checks them."""


def why_not(cell: Cell, machine: Machine, reach: Reach, offer: Offer | None = None) -> Message | None:
    """`offer` is that of the cell's workload. First comes what no other machine would change."""
    reasons = [
        _precision_without_hardware(cell),
        _precision_without_kernels(cell),
        _missing_recipe(cell, offer),
        None if reach.is_elsewhere else _missing_here(cell.framework, cell.device, machine),
        None if reach.is_elsewhere else _too_many_devices(cell, machine),
        _too_many_nodes(cell, reach),
    ]
    return next((reason for reason in reasons if reason is not None), None)


def require(framework: str, machine: Machine, *, device: str = "cpu") -> None:
    """For what is no cell of a plan but runs a framework here too."""
    reason = _missing_here(framework, device, machine)
    if reason is not None:
        what, _, hint = reason.english.rpartition("; ")
        raise InputError(what, hint=hint)


def _missing_here(name: str, device: str, machine: Machine) -> Message | None:
    framework = frameworks().load(name)
    if name not in machine.frameworks:
        return framework_missing(framework=name, package=framework.requirement())
    if device == "cuda" and not machine.gpus:
        return no_gpu()
    if device == "cuda" and name in machine.frameworks_without_gpu:
        return framework_for_cpus_only(framework=name, build=framework.gpu_build)
    return None


def _too_many_devices(cell: Cell, machine: Machine) -> Message | None:
    available = machine.num_devices(cell.device)
    if cell.devices_per_node <= available:
        return None
    too_few = too_few_gpus if cell.device == "cuda" else too_few_cores
    return too_few(wanted=cell.devices_per_node, available=available)


def _too_many_nodes(cell: Cell, reach: Reach) -> Message | None:
    if reach.num_nodes is None or cell.nodes <= reach.num_nodes:
        return None
    return too_few_nodes(wanted=cell.nodes, known=reach.num_nodes)


def _precision_without_hardware(cell: Cell) -> Message | None:
    return tf32_on_cpu() if cell.precision == "tf32" and cell.device == "cpu" else None


def _precision_without_kernels(cell: Cell) -> Message | None:
    framework = frameworks().load(cell.framework)
    known = framework.precisions_on(cell.device)
    if cell.precision in known:
        return None
    missing = no_precision_on_cpu if cell.precision in framework.precisions else no_precision
    return missing(framework=cell.framework, precision=cell.precision, known=", ".join(known))


def _missing_recipe(cell: Cell, offer: Offer | None) -> Message | None:
    known = offer.recipes_of.get(cell.framework) if offer is not None else None
    if known is None or cell.recipe in known:
        return None
    if (cell.framework, cell.recipe) == ("paddle", "fast"):
        return no_fast_paddle()
    return no_recipe(framework=cell.framework, recipe=cell.recipe, workload=cell.workload, known=", ".join(known))
