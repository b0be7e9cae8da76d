"""The GPUs of this machine that a framework will see, through NVML. For the plan before a run and for env.json."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Gpu:
    name: str
    memory_bytes: int
    uuid: str | None = None
    """Stays with the hardware, whatever its index, its host or its container."""


def read_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """And the version of the driver. Limited to CUDA_VISIBLE_DEVICES, as the framework will be."""
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
            memory_bytes = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
            name, uuid = str(pynvml.nvmlDeviceGetName(handle)), str(pynvml.nvmlDeviceGetUUID(handle))
            gpus.append(Gpu(name=name, memory_bytes=memory_bytes, uuid=uuid))
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        return visible_gpus(tuple(gpus), os.environ.get("CUDA_VISIBLE_DEVICES")), driver
    except pynvml.NVMLError:
        return (), None
    finally:
        pynvml.nvmlShutdown()


def visible_gpus(gpus: tuple[Gpu, ...], wanted: str | None) -> tuple[Gpu, ...]:
    """`wanted` is CUDA_VISIBLE_DEVICES: indices, ids or beginnings of ids; None for all."""
    if wanted is None:
        return gpus
    seen: list[Gpu] = []
    for field in (field.strip() for field in wanted.split(",")):
        if field.isdigit() and int(field) < len(gpus):
            seen.append(gpus[int(field)])
        elif field.startswith(("GPU-", "MIG-")) and gpus:
            named = (gpu for gpu in gpus if gpu.uuid is not None and gpu.uuid.startswith(field))
            # A part of a GPU (MIG) has an id of its own; which GPU it belongs to does not matter here.
            seen.append(next(named, replace(gpus[min(len(seen), len(gpus) - 1)], uuid=field)))
        else:
            break  # like CUDA, ignore everything from the first invalid entry on; -1 hides all
    return tuple(seen)
