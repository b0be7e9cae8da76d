"""`trainmark doctor`: what this machine has, and what is missing for good numbers."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainmark.cache_folder import compile_cache_folder, count_bytes
from trainmark.cli.output import next_command, print_commands, print_json, stdout_console
from trainmark.cli.parser import add_json_option, add_machine_options, add_store_option, integer, read_cluster_options
from trainmark.errors import InputError
from trainmark.frameworks import frameworks, required_extra
from trainmark.measured_peaks import Peak, describe_peaks, read_peaks
from trainmark.plan.machine import Machine, read_machine
from trainmark.units import format_bytes, format_count

_LOW_DISK_BYTES = 1 << 30
_INDENT = 11
_NETWORK_OPTIONS = ("nodes", "devices", "device", "launcher", "hosts", "cluster")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from trainmark.launch.registry import launchers

    parser.add_argument(
        "--peaks",
        action="store_true",
        help="measure matrix product, copy and JPEG decoding, and keep the results",
    )
    group = parser.add_argument_group("network")
    group.add_argument(
        "--network", action="store_true", help="measure all-reduce latency and bandwidth between processes instead"
    )
    group.add_argument("--nodes", type=integer(), metavar="N", help="number of machines (default: 1)")
    group.add_argument(
        "--devices", type=integer(), metavar="N", help="devices per machine (default: all GPUs, or 2 processes)"
    )
    group.add_argument("--device", metavar="KIND", help="cpu or cuda (default: cuda if there is a GPU)")
    group.add_argument("--launcher", choices=launchers().names(), help="how to start processes; dry prints the command")
    add_machine_options(group)
    add_store_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.controller.results import refuse_file

    refuse_file(Path(args.store))
    if args.network:
        return _measure_network(args)
    if args.peaks:
        return _measure_peaks(args)
    for option in _NETWORK_OPTIONS:
        if vars(args)[option] is not None:
            raise InputError(f"--{option} needs --network", hint="trainmark doctor --network")
    machine, peaks = read_machine(), read_peaks(os.environ)
    problems = _find_problems(machine, Path(args.store))
    cache = compile_cache_folder(os.environ)
    compiled = {"path": str(cache), "bytes": count_bytes(cache)}
    if args.json:
        print_json(machine=asdict(machine), compile_cache=compiled, peaks=peaks, problems=problems)
        return 0
    _print(machine, problems)
    _print_kept(compiled, peaks)
    next_command("trainmark run quick", store=args.store)
    return 0


def _measure_network(args: argparse.Namespace) -> int:
    from trainmark.analyse.communication import summarise_network
    from trainmark.cli.progress import RunProgress
    from trainmark.controller.network import measure_network, network_commands, network_options
    from trainmark.launch.registry import launchers
    from trainmark.report.network import describe_network, print_network
    from trainmark.spec.cluster import read_cluster

    options = network_options(
        device=args.device,
        nodes=args.nodes or 1,
        devices=args.devices,
        launcher=args.launcher or "auto",
        cluster=read_cluster(read_cluster_options(args)),
        machine=read_machine(),
    )
    if launchers().load(args.launcher or "auto").prints is not None:
        print_commands(network_commands(options), is_json=args.json)
        return 0
    with RunProgress() as progress:
        network = summarise_network(measure_network(options, Path(args.store), progress))
    if args.json:
        print_json(network=describe_network(network))
        return 0
    print_network(network, stdout_console())
    next_command("trainmark run scaling", store=args.store)
    return 0


def _measure_peaks(args: argparse.Namespace) -> int:
    from trainmark.controller.peaks import measure_peaks

    for option in (name for name in _NETWORK_OPTIONS if name != "device"):
        if vars(args)[option] is not None:
            raise InputError(f"--{option} needs --network", hint="trainmark doctor --network")
    peaks = measure_peaks(args.device, os.environ, read_machine())
    if args.json:
        print_json(peaks=peaks)
        return 0
    for line in describe_peaks(peaks):
        stdout_console().print(line)
    next_command("trainmark run quick", store=args.store)
    return 0


def _print_kept(compiled: dict[str, Any], peaks: Sequence[Peak]) -> None:
    console = stdout_console()
    size = format_bytes(compiled["bytes"]) if compiled["bytes"] else "empty"
    console.print(f"{'compiled':<{_INDENT}}{compiled['path']} ({size})")
    for line in describe_peaks(peaks) if peaks else ["not measured: trainmark doctor --peaks"]:
        console.print(f"{'peaks':<{_INDENT}}{line}")


def _find_problems(machine: Machine, store: Path) -> list[dict[str, str]]:
    problems = []
    if not machine.frameworks:
        problems.append(("no framework is installed", f"pip install {required_extra('torch')}"))
    if not machine.gpus:
        problems.append(("no NVIDIA GPU is visible", "CPU runs work; --size small keeps them short"))
    if machine.gpus:
        problems += [
            (f"the installed {name} is built for CPUs only", f"for the GPU install {frameworks().load(name).gpu_build}")
            for name in machine.frameworks_without_gpu
        ]
    if machine.gpus and machine.compiler is None:
        problems.append(("no C++ compiler", "install g++; without it `fast` runs uncompiled"))
    load = os.getloadavg()[0]
    if load > 0.5 * machine.num_cores:
        problems.append((f"the machine is busy (load {load:.1f})", "wait, or expect wide intervals"))
    real = Path(os.path.realpath(store))
    existing = next(path for path in (real, *real.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < _LOW_DISK_BYTES:
        problems.append((f"only {format_bytes(free)} free at {store}", "free some space, or use another --store DIR"))
    if not os.access(existing, os.W_OK):
        problems.append((f"{store} is not writable", "fix its permissions, or use another --store DIR"))
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
