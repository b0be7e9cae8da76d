"""`doctor --network`: all-reduce over a range of sizes, with the real backend between real processes."""

from __future__ import annotations

import contextlib
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainmark.controller.launching import choose_launcher, make_job, read_reach
from trainmark.controller.listener import Listener
from trainmark.controller.preflight import make_shared_folder
from trainmark.errors import InputError, RunError
from trainmark.launch.job import Command, Job, Prints, own_python
from trainmark.launch.registry import launchers
from trainmark.plan.feasible import require
from trainmark.plan.machine import Machine
from trainmark.runfolder.files import NETWORK_FILE, NETWORK_REQUEST_FILE, OUTPUT_FILE, SCHEMA, read_json, write_json
from trainmark.runfolder.records import Outcome
from trainmark.spec.cluster import Cluster

_FRAMEWORK, _MODULE = "torch", "trainmark.worker.torch.network"
"""The one framework whose collectives can be measured so far."""
_MAX_BYTES = {"cpu": 64 << 20, "cuda": 1 << 30}
_MAX_S = 30.0
_TIMEOUT_S = 300.0
_TAIL_LINES = 6


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    device: str
    nodes: int
    devices_per_node: int
    cluster: Cluster
    launcher: str = "auto"


def network_options(
    *, device: str | None, nodes: int, devices: int | None, launcher: str, cluster: Cluster, machine: Machine
) -> NetworkOptions:
    """Fills in what was not given, and refuses what this machine cannot do."""
    require(_FRAMEWORK, machine)
    asked = launchers().load(launcher)
    if asked.prints is Prints.MANIFESTS:
        hint = "use another --launcher"
        raise InputError(f"--launcher {launcher} cannot be combined with --network", hint=hint)
    device = device or machine.best_device
    if device not in _MAX_BYTES:
        raise InputError(f"--device: unknown device type {device!r}", hint="use cpu or cuda")
    is_here = not read_reach(launcher, cluster).is_elsewhere
    if is_here:
        require(_FRAMEWORK, machine, device=device)
    available = machine.num_devices(device)
    devices = devices or ((available or 1) if device == "cuda" else 2)
    if nodes * devices < 2:
        hint = "use --devices 2, or --device cpu for processes that share this machine"
        raise InputError("the network cannot be measured with one process", hint=hint)
    most = available if device == "cuda" else max(2, available)  # two processes can share one core
    if devices > most and is_here:
        noun = "GPUs" if device == "cuda" else "CPU cores"
        why = f"{noun} on this machine: {available}"
        raise InputError(f"{devices} devices requested", why=why, hint=f"use --devices {most}")
    options = NetworkOptions(device=device, nodes=nodes, devices_per_node=devices, cluster=cluster)
    return replace(options, launcher=choose_launcher(launcher, options, cluster, framework=_FRAMEWORK).name)


def network_commands(options: NetworkOptions) -> tuple[Command, ...]:
    """What would be started, in a folder named FOLDER."""
    return launchers().load(options.launcher).commands(_make_job(options, "RUN", Path("FOLDER")))


def measure_network(options: NetworkOptions, store: Path, listener: Listener) -> dict[str, Any]:
    """Works in a temporary folder of the store, which all machines see: this is not a result to keep."""
    from trainmark.launch.supervise import supervise

    folder = make_shared_folder(store, ".network-")
    try:
        wanted = {"device": options.device, "max_bytes": _MAX_BYTES[options.device], "max_s": _MAX_S}
        write_json(folder / NETWORK_REQUEST_FILE, {"schema": SCHEMA, **wanted})
        num_processes = options.nodes * options.devices_per_node
        listener.say(f"measuring between {num_processes} processes, at most about half a minute")
        ending = supervise(
            folder,
            folder.name,
            launchers().load(options.launcher).commands(_make_job(options, folder.name, folder)),
            launcher=options.launcher,
            timeout_s=_TIMEOUT_S,
            observe=lambda _: None,
        )
        document = read_json(folder / NETWORK_FILE)
        if ending.outcome is not Outcome.OK or document is None:
            output = (folder / OUTPUT_FILE).read_text(encoding="utf-8", errors="replace")
            for line in output.splitlines()[-_TAIL_LINES:]:
                listener.say(f"  {line}")
            hint = "can the machines reach each other by name, and are the ports open? try NCCL_DEBUG=INFO"
            raise RunError("cannot measure the network", why=ending.reason.english, hint=hint)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            store.rmdir()  # where it was made for this
    return document


def _make_job(options: NetworkOptions, run_id: str, folder: Path) -> Job:
    argv = (*own_python(sys.executable), _MODULE, str(folder))
    return make_job(options, run_id, folder, cluster=options.cluster, argv=argv)
