"""Hardware and software of this machine, found without importing a framework."""

from __future__ import annotations

import platform
import shutil
import socket
from dataclasses import dataclass

from trainmark import host
from trainmark.frameworks import frameworks
from trainmark.gpus import Gpu, read_gpus


@dataclass(frozen=True, kw_only=True)
class Machine:
    hostname: str
    system: str
    cpu: str
    num_cores: int
    """Usable by this process."""
    memory_bytes: int
    gpus: tuple[Gpu, ...]
    driver: str | None
    frameworks: dict[str, str]
    """Installed frameworks and their versions."""
    compiler: str | None
    """A C++ compiler, which torch.compile needs."""
    frameworks_without_gpu: tuple[str, ...] = ()
    """Installed ones whose build cannot use a GPU."""

    @property
    def best_device(self) -> str:
        return "cuda" if self.gpus else "cpu"

    def num_devices(self, device: str) -> int:
        return len(self.gpus) if device == "cuda" else self.num_cores


def read_machine() -> Machine:
    gpus, driver = read_gpus()
    versions = _read_frameworks()
    return Machine(
        hostname=socket.gethostname(),
        system=platform.platform(),
        cpu=host.cpu_name(),
        num_cores=host.num_cores(),
        memory_bytes=host.memory_bytes(),
        gpus=gpus,
        driver=driver,
        frameworks=versions,
        compiler=shutil.which("g++"),
        frameworks_without_gpu=tuple(name for name in versions if frameworks().load(name).is_for_cpus_only()),
    )


def _read_frameworks() -> dict[str, str]:
    versions = {found.name: found.value.installed_version() for found in frameworks().found()}
    return {name: version for name, version in versions.items() if version is not None}
