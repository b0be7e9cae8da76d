"""Why a cell cannot run on this machine, in one sentence with the next action; None where it can."""

from __future__ import annotations

from dataclasses import dataclass

from trainmark.frameworks import frameworks
from trainmark.plan.machine import Machine
from trainmark.spec.cell import Cell


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How far the launcher reaches."""

    num_nodes: int | None = 1
    """None: a queue has as many as it has."""
    is_elsewhere: bool = False
    """Processes start on machines that we know nothing of; the preflight looks at them."""


def why_not(cell: Cell, machine: Machine, reach: Reach) -> str | None:
    here = () if reach.is_elsewhere else (_missing_framework, _missing_gpu, _too_many_devices)
    reasons = [*(check(cell, machine) for check in here), _precision_without_hardware(cell, machine)]
    return next((reason for reason in (*reasons, _too_many_nodes(cell, reach)) if reason is not None), None)


def _missing_framework(cell: Cell, machine: Machine) -> str | None:
    if cell.framework in machine.frameworks:
        return None
    framework = frameworks().load(cell.framework)
    package = f"'trainmark[{framework.name}]'" if framework.is_extra else framework.distribution
    return f"{framework.name} is not installed; pip install {package}"


def _missing_gpu(cell: Cell, machine: Machine) -> str | None:
    if cell.device == "cuda" and not machine.gpus:
        return "no NVIDIA GPU is visible here; use --device cpu, or look at nvidia-smi and CUDA_VISIBLE_DEVICES"
    return None


def _too_many_devices(cell: Cell, machine: Machine) -> str | None:
    there = machine.num_devices(cell.device)
    if cell.devices_per_node <= there:
        return None
    noun = "GPU" if cell.device == "cuda" else "CPU core"
    plural = "" if there == 1 else "s"
    return f"{cell.devices_per_node} devices asked for, {there} {noun}{plural} here; use --devices {there} or fewer"


def _too_many_nodes(cell: Cell, reach: Reach) -> str | None:
    if reach.num_nodes is None or cell.nodes <= reach.num_nodes:
        return None
    noun = "machine is" if reach.num_nodes == 1 else "machines are"
    return f"{cell.nodes} nodes asked for, {reach.num_nodes} {noun} known; give --hosts A,B or --launcher slurm"


def _precision_without_hardware(cell: Cell, machine: Machine) -> str | None:  # noqa: ARG001
    if cell.precision == "tf32" and cell.device == "cpu":
        return "tf32 is a mode of NVIDIA GPUs; a CPU has none; use --precision fp32"
    return None
