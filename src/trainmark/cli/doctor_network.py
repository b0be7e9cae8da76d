"""`trainmark doctor --network`: all-reduce over sizes, with the real backend between the real processes."""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainmark.cli.output import next_command, print_json, stdout_console, talk
from trainmark.cli.specify import add_machine_arguments, read_cluster_flags
from trainmark.controller.launching import choose_launcher, make_job, print_commands
from trainmark.controller.preflight import make_shared_folder
from trainmark.errors import InputError, RunError
from trainmark.launch.job import Job, Machines, Prints, own_python
from trainmark.launch.registry import launchers
from trainmark.plan.machine import Machine, read_machine
from trainmark.runfolder.files import NETWORK_FILE, NETWORK_REQUEST_FILE, OUTPUT_FILE, SCHEMA, read_json, write_json
from trainmark.runfolder.records import Outcome
from trainmark.spec.cluster import Cluster
from trainmark.units import plain

MODULE = "trainmark.worker.torch.network"
_FLAGS = ("nodes", "devices", "device", "launcher", "hosts", "cluster")
_MAX_BYTES = {"cpu": 64 << 20, "cuda": 1 << 30}
_MAX_S = 30.0
_TIMEOUT_S = 300.0
_TAIL_LINES = 6


@dataclass(frozen=True, kw_only=True)
class _Request:
    device: str
    nodes: int
    devices_per_node: int
    launcher: str
    cluster: Cluster


def add_network_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("network")
    group.add_argument(
        "--network", action="store_true", help="measure all-reduce latency and bandwidth between processes instead"
    )
    group.add_argument("--nodes", metavar="N", help="number of machines (default: 1)")
    group.add_argument("--devices", metavar="N", help="devices per machine (default: all GPUs, or 2 processes)")
    group.add_argument("--device", metavar="KIND", help="cpu or cuda (default: cuda where there is a GPU)")
    group.add_argument("--launcher", choices=launchers().names(), help="how processes start; dry prints the command")
    add_machine_arguments(group)


def refuse_without_network(args: argparse.Namespace) -> None:
    for flag in _FLAGS:
        if getattr(args, flag) is not None:
            raise InputError(f"--{flag} goes with --network", hint="trainmark doctor --network")


def measure_network(args: argparse.Namespace) -> int:
    machine = read_machine()
    request = _read_request(args, machine)
    if launchers().load(args.launcher or "auto").prints is Prints.COMMANDS:
        commands = launchers().load(request.launcher).commands(_job(request, "RUN", Path("FOLDER")))
        return print_commands(commands, is_json=args.json)
    document = _measure(request, Path(args.store))
    from trainmark.analyse.communication import summarise_network
    from trainmark.report.network import describe_network, print_network

    network = summarise_network(document)
    if args.json:
        print_json(network=describe_network(network))
        return 0
    print_network(network, stdout_console())
    next_command("trainmark run scaling", store=args.store)
    return 0


def _read_request(args: argparse.Namespace, machine: Machine) -> _Request:
    if "torch" not in machine.frameworks:
        raise InputError("torch is not installed", hint="pip install 'trainmark[torch]'")
    asked = launchers().load(args.launcher or "auto")
    if asked.prints is Prints.MANIFESTS:
        raise InputError("a manifest measures nothing here", hint="use another --launcher")
    device = args.device or machine.best_device
    if device not in _MAX_BYTES:
        raise InputError(f"{plain(device)!r} is no kind of device", hint="use cpu or cuda")
    cluster = read_cluster_flags(args)
    is_here = not cluster.hosts and asked.machines is not Machines.SCHEDULER
    if device == "cuda" and not machine.gpus and is_here:
        raise InputError("no NVIDIA GPU is visible here", hint="use --device cpu, or look at nvidia-smi")
    nodes = _whole(args.nodes, "--nodes", default=1)
    there = machine.num_devices(device)
    devices = _whole(args.devices, "--devices", default=(there or 1) if device == "cuda" else 2)
    if nodes * devices < 2:
        hint = "use --devices 2, or --device cpu for processes that share this machine"
        raise InputError("one process has nobody to exchange with", hint=hint)
    most = there if device == "cuda" else max(2, there)  # two processes can talk on one core
    if devices > most and is_here:
        noun = "GPUs" if device == "cuda" else "CPU cores"
        raise InputError(f"{devices} devices asked for", why=f"{noun} here: {there}", hint=f"use --devices {most}")
    request = _Request(device=device, nodes=nodes, devices_per_node=devices, launcher="auto", cluster=cluster)
    return replace(request, launcher=choose_launcher(args.launcher or "auto", request, cluster, framework="torch").name)


def _whole(text: str | None, flag: str, *, default: int) -> int:
    if text is None:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{flag}: {plain(text)!r} is no whole number from 1 up", hint=f"as in {flag} 2")
    return int(text)


def _measure(request: _Request, store: Path) -> dict[str, Any]:
    """In a folder of the store, which all machines see, and which is gone afterwards: it is no result of a training."""
    from trainmark.launch.supervise import supervise

    folder = make_shared_folder(store, ".network-")
    try:
        wanted = {"device": request.device, "max_bytes": _MAX_BYTES[request.device], "max_s": _MAX_S}
        write_json(folder / NETWORK_REQUEST_FILE, {"schema": SCHEMA, **wanted})
        talk(f"measuring between {request.nodes * request.devices_per_node} processes, about half a minute at most")
        ending = supervise(
            folder,
            folder.name,
            launchers().load(request.launcher).commands(_job(request, folder.name, folder)),
            launcher=request.launcher,
            timeout_s=_TIMEOUT_S,
            observe=lambda _: None,
        )
        document = read_json(folder / NETWORK_FILE)
        if ending.outcome is not Outcome.OK or document is None:
            output = (folder / OUTPUT_FILE).read_text(encoding="utf-8", errors="replace")
            for line in output.splitlines()[-_TAIL_LINES:]:
                talk(f"  {line}")
            hint = "can the machines reach each other by name, and are the ports open? NCCL_DEBUG=INFO says more"
            raise RunError("the network could not be measured", why=ending.reason.english, hint=hint)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return document


def _job(request: _Request, run_id: str, folder: Path) -> Job:
    argv = (*own_python(sys.executable), MODULE, str(folder))
    return make_job(request, run_id, folder, cluster=request.cluster, argv=argv)
