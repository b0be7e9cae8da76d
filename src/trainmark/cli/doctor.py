"""`trainmark doctor`: what this machine has, and what is missing for good numbers."""

from __future__ import annotations

import argparse
import os
import shutil
from dataclasses import asdict
from pathlib import Path

from trainmark.cli.doctor_network import add_network_arguments, measure_network, refuse_without_network
from trainmark.cli.output import add_json_flag, add_store_flag, next_command, print_json, stdout_console
from trainmark.cli.results import refuse_file
from trainmark.plan.machine import Machine, read_machine
from trainmark.units import format_bytes, format_count

_LOW_DISK_BYTES = 1 << 30
_INDENT = 11


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network_arguments(parser)
    add_store_flag(parser)
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    refuse_file(Path(args.store))
    if args.network:
        return measure_network(args)
    refuse_without_network(args)
    machine = read_machine()
    problems = _find_problems(machine, Path(args.store))
    if args.json:
        print_json(machine=asdict(machine), problems=problems)
        return 0
    _print(machine, problems)
    next_command("trainmark run quick", store=args.store)
    return 0


def _find_problems(machine: Machine, store: Path) -> list[dict[str, str]]:
    problems = []
    if not machine.frameworks:
        problems.append(("no framework is installed", "pip install 'trainmark[torch]'"))
    if not machine.gpus:
        problems.append(("no NVIDIA GPU is visible", "CPU runs work; --size small keeps them short"))
    if machine.compiler is None:
        problems.append(("no C++ compiler", "install g++, or `fast` runs uncompiled on the CPU"))
    load = os.getloadavg()[0]
    if load > 0.5 * machine.num_cores:
        problems.append((f"the machine is busy (load {load:.1f})", "wait, or expect wide intervals"))
    existing = next(path for path in (store.resolve(), *store.resolve().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < _LOW_DISK_BYTES:
        problems.append((f"only {format_bytes(free)} free at {store}", "free some, or give --store DIR"))
    if not os.access(existing, os.W_OK):
        problems.append((f"{store} cannot be written", "mend its permissions, or give --store DIR"))
    return [{"problem": problem, "hint": hint} for problem, hint in problems]


def _print(machine: Machine, problems: list[dict[str, str]]) -> None:
    from rich.text import Text

    from trainmark.report.layout import fold

    gpus = ", ".join(f"{gpu.name} ({format_bytes(gpu.memory_bytes)})" for gpu in machine.gpus)
    frameworks = ", ".join(f"{name} {version}" for name, version in machine.frameworks.items())
    facts = {
        "host": machine.hostname,
        "system": machine.system,
        "cpu": f"{machine.cpu}, {format_count(machine.num_cores, 'cores')} usable",
        "memory": format_bytes(machine.memory_bytes),
        "gpu": f"{gpus}, driver {machine.driver}" if gpus else "none",
        "frameworks": frameworks or "none",
        "compiler": machine.compiler or "none",
    }
    console = stdout_console()
    lines = [*facts.items(), *(("note", f"{problem['problem']}: {problem['hint']}") for problem in problems)]
    for name, value in lines:
        console.print(Text(fold(f"{name:<{_INDENT}}{value}", console, indent=_INDENT)))
