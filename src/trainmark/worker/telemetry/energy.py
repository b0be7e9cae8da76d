"""Energy counters: of the GPU through NVML, of the processor packages through powercap (RAPL).

A counter adds up what a device has used since the driver was loaded, so the energy between two readings is exact
however rarely it is read. A rank reads the counter of its own GPU; two ranks on one GPU read the same counter, and the
name of the device says so. Only the first rank of a host reads the processor's. A missing counter has a reason.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainmark.messages.energy import (
    counter_missing,
    counter_unreadable,
    gpu_partitioned,
    no_powercap,
)
from trainmark.messages.message import Message
from trainmark.runfolder.records import Kind
from trainmark.worker.telemetry.sensors import GpuSensor

POWERCAP = Path("/sys/class/powercap")


class PackageCounter:
    """One processor package. Its counter starts again from zero after `max_energy_range_uj`."""

    def __init__(self, zone: Path) -> None:
        self._file = zone / "energy_uj"
        self._range_uj = int((zone / "max_energy_range_uj").read_text())
        self._last_uj = int(self._file.read_text())
        self._total_uj = 0

    def read_j(self) -> float:
        now_uj = int(self._file.read_text())
        self._total_uj += now_uj - self._last_uj if now_uj >= self._last_uj else now_uj + self._range_uj - self._last_uj
        self._last_uj = now_uj
        return self._total_uj / 1e6


def open_packages(root: Path) -> list[PackageCounter] | Message:
    """All packages of the host, or why there is no counter. A part of a package (core, dram) is not counted again."""
    zones = [zone for zone in sorted(root.glob("intel-rapl:*")) if zone.name.count(":") == 1]
    try:
        packages = [zone for zone in zones if (zone / "name").read_text().startswith("package")]
        if not packages:
            return no_powercap(path=str(root))
        return [PackageCounter(zone) for zone in packages]
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return counter_unreadable(path=str(root), why=why)


class EnergyMeter:
    """The counters that this rank reads."""

    def __init__(self, *, gpu: GpuSensor | None, host: str, is_first_of_host: bool, powercap: Path = POWERCAP) -> None:
        self._host = host
        self._counters: dict[str, Callable[[], float | None]] = {}
        self._facts: dict[str, Any] = {}
        if gpu is not None:
            self._add("device", _open_gpu(gpu), name=gpu.uuid())
        if is_first_of_host:
            packages = open_packages(powercap)
            read = packages if isinstance(packages, Message) else lambda: sum(one.read_j() for one in packages)
            self._add("host", read, name=host)

    def _add(self, kind: str, counter: Callable[[], float | None] | Message, *, name: str | None) -> None:
        if isinstance(counter, Message):
            self._facts[f"{kind}_missing"] = counter.to_json()
            return
        self._counters[kind] = counter
        self._facts[kind] = name

    def describe(self) -> dict[str, Any]:
        """Which counters there are, once."""
        return {"kind": Kind.ENERGY, "host_name": self._host, **self._facts}

    def read(self) -> dict[str, Any] | None:
        """None where there is nothing to read."""
        found: dict[str, float] = {}
        for kind, counter in self._counters.items():
            with contextlib.suppress(OSError, ValueError):
                joules = counter()
                if joules is not None:
                    found[f"{kind}_j"] = round(joules, 3)
        return {"kind": Kind.ENERGY, **found} if found else None


def _open_gpu(gpu: GpuSensor) -> Callable[[], float | None] | Message:
    if gpu.is_partitioned():
        return gpu_partitioned()
    return gpu.energy_j if gpu.energy_j() is not None and gpu.uuid() is not None else counter_missing()
