"""Hardware and software of this machine, found without importing a framework."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from dataclasses import dataclass

from trainmark import host
from trainmark.frameworks import frameworks


@dataclass(frozen=True, kw_only=True)
class Gpu:
    name: str
    memory_bytes: int


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
    """A C++ compiler, which torch.compile needs on the CPU."""

    @property
    def best_device(self) -> str:
        return "cuda" if self.gpus else "cpu"

    def num_devices(self, device: str) -> int:
        return len(self.gpus) if device == "cuda" else self.num_cores


def read_machine() -> Machine:
    gpus, driver = _read_gpus()
    return Machine(
        hostname=socket.gethostname(),
        system=platform.platform(),
        cpu=host.cpu_name(),
        num_cores=host.num_cores(),
        memory_bytes=host.memory_bytes(),
        gpus=gpus,
        driver=driver,
        frameworks=_read_frameworks(),
        compiler=shutil.which("g++"),
    )


def _read_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """From NVML, limited to CUDA_VISIBLE_DEVICES as the framework will be."""
    try:
        import pynvml
    except ImportError:
        return (), None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return (), None
    try:
        gpus = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            name = pynvml.nvmlDeviceGetName(handle)
            gpus.append(Gpu(name=str(name), memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)))
        return _visible(tuple(gpus)), str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return (), None
    finally:
        pynvml.nvmlShutdown()


def _visible(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return gpus
    seen: list[Gpu] = []
    for field in (field.strip() for field in wanted.split(",")):
        if field.isdigit() and int(field) < len(gpus):
            seen.append(gpus[int(field)])
        elif field.startswith(("GPU-", "MIG-")):
            seen.append(gpus[min(len(seen), len(gpus) - 1)])
        else:
            break  # like CUDA, ignore everything from the first invalid entry on; -1 hides all
    return tuple(seen)


def _read_frameworks() -> dict[str, str]:
    versions = {found.name: found.value.installed_version() for found in frameworks().found()}
    return {name: version for name, version in versions.items() if version is not None}
