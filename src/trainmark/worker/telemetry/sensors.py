"""Readings of the machine: power, clocks, temperature, memory, utilisation, throttling, processes on the GPU.

NVML and psutil are optional: inside a vendor container the worker records what is available.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_THROTTLE_BITS = {  # the names NVML gives to the bits of its clocks-event mask
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


class ClockSensor:
    """How far the wall clock has moved against the monotonic clock since the start."""

    def __init__(self, *, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._start_s = self._offset()

    def read(self) -> dict[str, float]:
        offset_s = self._offset()
        if self._start_s is None or offset_s is None:
            return {}
        return {"clock_shift_s": round(offset_s - self._start_s, 3)}

    def _offset(self) -> float | None:
        """None if the process was suspended between the two readings, which would look like a jump."""
        for _ in range(3):
            before_s, wall_s, after_s = self._steady(), self._wall(), self._steady()
            if after_s - before_s < 0.05:
                return wall_s - before_s
        return None


class HostSensor:
    """CPU and memory of the host and of this process."""

    def __init__(self) -> None:
        try:
            import psutil
        except ImportError:
            self._psutil = None
            return
        self._psutil = psutil
        self._process = psutil.Process()
        psutil.cpu_percent()
        self._last = (time.monotonic(), self._cpu_s())

    def read(self) -> dict[str, Any]:
        if self._psutil is None:
            return {}
        now = (time.monotonic(), self._cpu_s())
        cores = (now[1] - self._last[1]) / max(now[0] - self._last[0], 1e-9)
        self._last = now
        memory = self._psutil.virtual_memory()
        return {
            "cpu_percent": self._psutil.cpu_percent(),
            "process_cores": round(cores, 3),
            "process_rss_bytes": self._process.memory_info().rss,
            "memory_used_bytes": memory.total - memory.available,
        }

    def _cpu_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


@dataclass(frozen=True, kw_only=True)
class GpuProcess:
    pid: int
    used_bytes: int | None
    """None if the driver does not say."""


class GpuSensor:
    """One GPU through NVML; every reading is optional, since not all GPUs and containers provide all of them."""

    def __init__(self, index: int) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        try:
            nvml: Any = importlib.import_module("pynvml")
            nvml.nvmlInit()
            which = physical_gpu(index, os.environ.get("CUDA_VISIBLE_DEVICES"))
            by_index = isinstance(which, int)
            find = nvml.nvmlDeviceGetHandleByIndex if by_index else nvml.nvmlDeviceGetHandleByUUID
            self._handle = find(which)
        except Exception:  # noqa: S110 - absent, too old or forbidden: the run continues without telemetry
            pass
        else:
            self._nvml = nvml

    def read(self) -> dict[str, Any]:
        nvml, handle = self._nvml, self._handle
        if nvml is None:
            return {}
        readings: dict[str, Callable[[], Any]] = {
            "gpu_power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "gpu_sm_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "gpu_memory_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "gpu_temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "gpu_memory_used_bytes": lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used),
            "gpu_utilisation_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "gpu_throttle": lambda: name_throttle(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        }
        return self._try(readings)

    def processes(self) -> list[GpuProcess] | None:
        """Those with a compute context; None if NVML does not list them."""
        if self._nvml is None:
            return None
        with contextlib.suppress(self._nvml.NVMLError, AttributeError):
            listed = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
            return [GpuProcess(pid=process.pid, used_bytes=process.usedGpuMemory) for process in listed]
        return None

    def limits(self) -> dict[str, float]:
        nvml, handle = self._nvml, self._handle
        if nvml is None:
            return {}
        readings: dict[str, Callable[[], float]] = {
            "power_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
            "power_usual_w": lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000,
            "sm_max_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
        }
        return self._try(readings)

    def _try(self, readings: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, reading in readings.items():
            with contextlib.suppress(self._nvml.NVMLError, AttributeError):
                result[name] = reading()
        return result

    def uuid(self) -> str | None:
        """Tells whether two ranks use the same GPU."""
        found = self._try({"uuid": lambda: self._nvml.nvmlDeviceGetUUID(self._handle)}) if self._nvml else {}
        uuid = found.get("uuid")
        return uuid.decode() if isinstance(uuid, bytes) else uuid

    def energy_j(self) -> float | None:
        """Used since the driver was loaded; None where the GPU has no counter."""
        if self._nvml is None:
            return None
        reading = {"energy": lambda: self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000}
        found: float | None = self._try(reading).get("energy")
        return found

    def is_partitioned(self) -> bool:
        """Whether the GPU is split into instances, of which a process gets one."""
        if self._nvml is None:
            return False
        reading = {"mig": lambda: self._nvml.nvmlDeviceGetMigMode(self._handle)[0]}
        return bool(self._try(reading).get("mig"))

    def memory_bytes(self) -> int | None:
        """Total memory of the GPU."""
        if self._nvml is None:
            return None
        with contextlib.suppress(self._nvml.NVMLError, AttributeError):
            return int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).total)
        return None


def physical_gpu(index: int, visible: str | None) -> int | str:
    """Index or UUID for NVML, which counts all GPUs, of the `index`-th GPU that is visible to the framework."""
    if not visible:
        return index
    field = visible.split(",")[index].strip()
    return int(field) if field.isdigit() else field


def name_throttle(mask: int) -> list[str]:
    return [name for bit, name in _THROTTLE_BITS.items() if mask & bit]


def pick_foreign(
    listed: Sequence[GpuProcess],
    *,
    own_pid: int,
    is_own: Callable[[int], bool],
    at_start: frozenset[int],
    num_local_ranks: int,
) -> list[GpuProcess]:
    """Processes on the GPU that do not belong to this run.

    `at_start` are the pids listed before any rank of this run can have used the GPU. In a container NVML gives the pids
    of the host, so that our own is not among them. Processes from before the run are still foreign. Of the later ones,
    the largest may be the ranks of this run on this host; only those beyond that number are certainly foreign.
    """
    if any(process.pid == own_pid for process in listed):
        return [process for process in listed if not is_own(process.pid)]
    early = [process for process in listed if process.pid in at_start]
    late = [process for process in listed if process.pid not in at_start]
    late.sort(key=lambda process: process.used_bytes or 0)
    return early + late[: max(0, len(late) - num_local_ranks)]
