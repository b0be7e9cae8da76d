"""The machines of a multi-node run and how to reach them. Not part of a cell: it says where, not what."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainmark.errors import Fault, SpecError
from trainmark.spec.checking import Checker, Table, describe_faults, is_word
from trainmark.spec.suite_variables import is_harmless

RENDEZVOUS = ("static", "elastic")
JOB_KINDS = ("PyTorchJob", "JobSet")
CLUSTER_KEYS = (
    "hosts", "remote_shell", "interface", "rendezvous", "environment", "mpi_arguments", "slurm_arguments",
    "image", "namespace", "volume", "data_volume", "resources", "job_kind",
)  # fmt: skip
_TRUSTED = ("remote_shell", "mpi_arguments", "slurm_arguments")
"""Can start any program: accepted from --cluster FILE only, since a suite may come from a stranger."""
_OURS = re.compile(r"TRAINMARK_.*|(LOCAL_)?(RANK|WORLD_SIZE)|MASTER_(ADDR|PORT)")
_SSH = ("ssh", "-tt", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "{host}")
"""With a terminal, so that remote processes end with the connection; keep-alives, so that a lost node is noticed."""
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESOURCE = re.compile(r"[a-z0-9][a-z0-9./-]*")


@dataclass(frozen=True, kw_only=True)
class Host:
    name: str
    """For the remote shell."""
    address: str
    """For the other machines."""

    @classmethod
    def parse(cls, text: str) -> Host:
        """`name`, or `name=address` if the other machines should use another address, such as a faster network."""
        name, _, address = text.partition("=")
        return cls(name=name, address=address or name)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    hosts: tuple[Host, ...] = ()
    """The first is the master. Slurm and Kubernetes choose their own."""
    remote_shell: tuple[str, ...] = _SSH
    """The words before a command that runs on `{host}`."""
    interface: str | None = None
    """Network interface for gloo and NCCL, such as eth0 or ib0; None: they choose."""
    rendezvous: str = "static"
    """`static`: we assign node ranks; `elastic`: torchrun's c10d rendezvous assigns them."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """For every process of a run: NCCL and InfiniBand settings."""
    mpi_arguments: tuple[str, ...] = ()
    slurm_arguments: tuple[str, ...] = ()
    """Added to mpirun, and to sbatch or srun: partition, account, time."""
    image: str | None = None
    namespace: str = "default"
    volume: str | None = None
    data_volume: str | None = None
    resources: Mapping[str, str] = field(default_factory=dict)
    job_kind: str = "PyTorchJob"
    """For Kubernetes: the container image, the namespace, the volume claims of the store and of the data, what a pod
    needs beside its GPUs (cpu, memory, an InfiniBand device), PyTorchJob or JobSet."""

    @property
    def variables(self) -> dict[str, str]:
        by_interface = {}
        if self.interface is not None:
            by_interface = {"GLOO_SOCKET_IFNAME": self.interface, "NCCL_SOCKET_IFNAME": self.interface}
        return {**by_interface, **self.environment}


def read_cluster(raw: Table) -> Cluster:
    """For options that are not part of a suite."""
    faults: list[Fault] = []
    cluster = parse_cluster(raw, faults)
    if faults:
        raise SpecError(describe_faults("the cluster", faults), faults)
    return cluster


def check_suite_cluster(raw: Table, faults: list[Fault], *, allowed: Collection[str] = ()) -> None:
    """A suite may say where to run and set variables of libraries, but name no program and no file to load.

    `allowed`: other variables, which the user named on the command line.
    """
    check = Checker(raw, "cluster", faults)
    for key in _TRUSTED:
        if key in raw:
            check.fault(key, "not allowed in a suite: it could start any program", "put it in a file: --cluster FILE")
    environment = raw.get("environment")
    for name in environment if isinstance(environment, dict) else ():
        if not is_harmless(str(name)) and name not in allowed:
            hint = f"if you trust it, pass --allow-env {name}, or put it in a file: --cluster FILE"
            check.fault("environment", f"{name} is not allowed in a suite", hint)


def parse_cluster(raw: Table, faults: list[Fault]) -> Cluster:
    """From a `[cluster]` table or a cluster file."""
    check = Checker(raw, "cluster", faults)
    check.refuse_unknown(CLUSTER_KEYS)
    found: dict[str, Any] = {
        "hosts": check.words("hosts", _is_host, "a list of host names, or name=address"),
        "remote_shell": check.words("remote_shell", is_word, "a list of words with {host} in one of them"),
        "rendezvous": check.choice("rendezvous", RENDEZVOUS),
        "environment": check.texts("environment", _NAME.fullmatch, '{ NCCL_DEBUG = "WARN" }'),
        "resources": check.texts("resources", _RESOURCE.fullmatch, '{ cpu = "64", memory = "200Gi" }'),
        "job_kind": check.choice("job_kind", JOB_KINDS),
        **{key: check.words(key, is_word, "a list of words") for key in ("mpi_arguments", "slurm_arguments")},
        **{key: check.word(key) for key in ("interface", "image", "namespace", "volume", "data_volume")},
    }
    if found["hosts"] is not None:
        found["hosts"] = tuple(Host.parse(text) for text in found["hosts"])
        names = [host.name for host in found["hosts"]]
        if len(set(names)) < len(names):
            check.fault("hosts", "duplicate host", "list each host once; --devices sets the processes per host")
    for name in found["environment"] or ():
        if _OURS.fullmatch(name):
            check.fault("environment", f"{name} is set by trainmark itself", "leave it out")
    if found["remote_shell"] is not None and not any("{host}" in word for word in found["remote_shell"]):
        check.fault("remote_shell", "must contain {host}", 'example: remote_shell = ["ssh", "{host}"]')
    return Cluster(**{key: value for key, value in found.items() if value is not None})


def _is_host(value: Any) -> bool:
    """Nothing that a remote shell or mpirun could take for an option."""
    return isinstance(value, str) and all(_HOST.fullmatch(part) for part in value.split("=", 1))
