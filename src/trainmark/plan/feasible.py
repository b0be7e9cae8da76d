"""Why a cell cannot run on this machine, in one sentence with the next action; None where it can."""

from __future__ import annotations

from trainmark.plan.machine import Machine
from trainmark.spec.cell import Cell


def why_not(cell: Cell, machine: Machine) -> str | None:
    checks = (_missing_framework, _missing_gpu, _too_many_devices, _too_many_nodes, _precision_without_hardware)
    return next((reason for check in checks if (reason := check(cell, machine))), None)


def _missing_framework(cell: Cell, machine: Machine) -> str | None:
    if cell.framework in machine.frameworks:
        return None
    return f"{cell.framework} is not installed; pip install 'trainmark[{cell.framework}]'"


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


def _too_many_nodes(cell: Cell, machine: Machine) -> str | None:  # noqa: ARG001 - same signature as its siblings
    if cell.nodes == 1:
        return None
    return f"{cell.nodes} nodes asked for; the launchers of this version start one (local, torchrun); use --nodes 1"


def _precision_without_hardware(cell: Cell, machine: Machine) -> str | None:  # noqa: ARG001
    if cell.precision == "tf32" and cell.device == "cpu":
        return "tf32 is a mode of NVIDIA GPUs; a CPU has none; use --precision fp32"
    return None
