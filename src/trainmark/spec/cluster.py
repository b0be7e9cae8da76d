"""The machines of a run with several of them and how to reach them. Not part of a cell: it says where, not what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainmark.errors import Fault

RENDEZVOUS = ("static", "elastic")
JOB_KINDS = ("PyTorchJob", "JobSet")
CLUSTER_KEYS = (
    "hosts", "remote_shell", "interface", "rendezvous", "environment", "mpi_arguments", "slurm_arguments",
    "image", "namespace", "volume", "data_volume", "resources", "job_kind",
)  # fmt: skip
_TRUSTED = ("remote_shell", "mpi_arguments", "slurm_arguments")
"""Can start any program: only from a file that was given as the cluster's, not from a suite, which may be anybody's."""
_SUITE_VARIABLE = re.compile(r"(NCCL|GLOO|UCX|OMP|MKL|KMP|FI|CUDA)_(?!.*(PLUGIN|MODULE|PATH|DIR|LIB|FILE|PRELOAD)).*")
_OURS = re.compile(r"TRAINMARK_.*|(LOCAL_)?(RANK|WORLD_SIZE)|MASTER_(ADDR|PORT)")
_SSH = ("ssh", "-tt", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "{host}")
"""With a terminal, so that processes there end with the connection; alive-checks, so that a lost node is noticed."""
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
        """`name`, or `name=address` where the others know it by another one (a faster network, say)."""
        name, _, address = text.partition("=")
        return cls(name=name, address=address or name)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    hosts: tuple[Host, ...] = ()
    """The first is the master. Slurm and Kubernetes choose their own."""
    remote_shell: tuple[str, ...] = _SSH
    """The words before a command that is to run on `{host}`."""
    interface: str | None = None
    """The network interface for gloo and NCCL, such as eth0 or ib0; None: they choose."""
    rendezvous: str = "static"
    """`static`: node ranks are given; `elastic`: torchrun's c10d rendezvous gives them."""
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


def check_suite_cluster(raw: Mapping[str, Any], faults: list[Fault]) -> None:
    """A suite may say where to run and set what libraries read, but name no program and no file to load."""
    check = _Check({}, faults)
    for key in _TRUSTED:
        if key in raw:
            check.fault(key, "could start any program", "put it into a file of your own and give --cluster FILE")
    environment = raw.get("environment")
    for name in environment if isinstance(environment, dict) else ():
        if not _SUITE_VARIABLE.fullmatch(str(name)):
            hint = "a suite sets NCCL_, GLOO_, UCX_, OMP_, MKL_, KMP_, FI_ and CUDA_ variables; others: --cluster FILE"
            check.fault("environment", f"{name} is not a suite's to set", hint)


def parse_cluster(raw: Mapping[str, Any], faults: list[Fault]) -> Cluster:
    """From a `[cluster]` table or a cluster file; every fault is noted."""
    check = _Check(raw, faults)
    found: dict[str, Any] = {
        "hosts": check.words("hosts", _is_host, "host names, or name=address"),
        "remote_shell": check.words("remote_shell", _is_word, "words with {host} in one of them"),
        "interface": check.word("interface"),
        "rendezvous": check.choice("rendezvous", RENDEZVOUS),
        "environment": check.table("environment", _NAME, 'as in { NCCL_DEBUG = "WARN" }'),
        "mpi_arguments": check.words("mpi_arguments", _is_word, "a list of words"),
        "slurm_arguments": check.words("slurm_arguments", _is_word, "a list of words"),
        "image": check.word("image"),
        "namespace": check.word("namespace"),
        "volume": check.word("volume"),
        "data_volume": check.word("data_volume"),
        "resources": check.table("resources", _RESOURCE, 'as in { cpu = "64", memory = "200Gi" }'),
        "job_kind": check.choice("job_kind", JOB_KINDS),
    }
    if found["hosts"] is not None:
        found["hosts"] = tuple(Host.parse(text) for text in found["hosts"])
        names = [host.name for host in found["hosts"]]
        if len(set(names)) < len(names):
            check.fault("hosts", "names one machine twice", "give each once; --devices says how many processes it gets")
    for name in found["environment"] or ():
        if _OURS.fullmatch(name):
            check.fault("environment", f"{name} is set by trainmark itself", "leave it out")
    if found["remote_shell"] is not None and not any("{host}" in word for word in found["remote_shell"]):
        check.fault("remote_shell", "has no {host}", 'as in ["ssh", "{host}"]')
    return Cluster(**{key: value for key, value in found.items() if value is not None})


class _Check:
    def __init__(self, raw: Mapping[str, Any], faults: list[Fault]) -> None:
        self._raw, self._faults = raw, faults
        for key in raw:
            if key not in CLUSTER_KEYS:
                self.fault(key, "is not a key", f"known: {', '.join(CLUSTER_KEYS)}")

    def fault(self, key: str, problem: str, hint: str) -> None:
        self._faults.append(Fault(where=f"cluster.{key}", problem=problem, hint=hint))

    def word(self, key: str) -> str | None:
        value = self._raw.get(key)
        if value is None or _is_word(value):
            return value
        self.fault(key, f"{value!r} is no word", "give one")
        return None

    def choice(self, key: str, allowed: tuple[str, ...]) -> str | None:
        value = self._raw.get(key)
        if value is None or value in allowed:
            return value
        self.fault(key, f"{value!r} is not known", f"known: {', '.join(allowed)}")
        return None

    def words(self, key: str, is_right: Any, hint: str) -> tuple[str, ...] | None:
        value = self._raw.get(key)
        if value is None:
            return None
        if isinstance(value, list) and all(is_right(item) for item in value):
            return tuple(value)
        self.fault(key, f"{value!r} is not right", hint)
        return None

    def table(self, key: str, names: re.Pattern[str], hint: str) -> dict[str, str] | None:
        value = self._raw.get(key)
        if value is None:
            return None
        if isinstance(value, dict):
            texts = {name: str(number) for name, number in value.items() if isinstance(number, (str, int, float))}
            if texts.keys() == value.keys() and all(names.fullmatch(n) and _is_word(t) for n, t in texts.items()):
                return texts
        self.fault(key, f"{value!r} is no such table", hint)
        return None


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _is_host(value: Any) -> bool:
    """Nothing that a remote shell or mpirun could take for a flag."""
    return isinstance(value, str) and all(_HOST.fullmatch(part) for part in value.split("=", 1))
