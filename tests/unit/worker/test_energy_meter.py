"""Energy counters of the worker: a GPU's through NVML, the processor's through powercap, and why there is none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from trainmark.messages.energy import counter_missing, counter_unreadable, gpu_partitioned, no_powercap
from trainmark.messages.message import Message
from trainmark.worker.telemetry.energy import EnergyMeter, PackageCounter, open_packages
from trainmark.worker.telemetry.sensors import GpuSensor


class Nvml:
    """As much of pynvml as the meter asks for."""

    NVMLError = RuntimeError

    def __init__(self, *, has_counter: bool = True, mig: int = 0) -> None:
        self.energy_mj = 1_000_000
        self._has_counter, self._mig = has_counter, mig

    def nvmlInit(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle}"

    def nvmlDeviceGetMigMode(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return self._mig, self._mig

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:  # noqa: N802
        if not self._has_counter:
            raise self.NVMLError("not supported")
        return self.energy_mj


def make_zone(root: Path, name: str, *, energy_uj: int, label: str = "package-0", most_uj: int = 1000) -> Path:
    zone = root / name
    zone.mkdir(parents=True)
    (zone / "name").write_text(f"{label}\n")
    (zone / "energy_uj").write_text(f"{energy_uj}\n")
    (zone / "max_energy_range_uj").write_text(f"{most_uj}\n")
    return zone


def gpu_of(monkeypatch: pytest.MonkeyPatch, nvml: Any) -> GpuSensor:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return GpuSensor(1)


def test_a_gpu_and_the_packages_of_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml()
    zones = [make_zone(tmp_path, f"intel-rapl:{n}", energy_uj=10, label=f"package-{n}") for n in (0, 1)]
    make_zone(tmp_path, "intel-rapl:0:0", energy_uj=5, label="dram")
    make_zone(tmp_path, "intel-rapl:2", energy_uj=5, label="psys")
    meter = EnergyMeter(gpu=gpu_of(monkeypatch, nvml), host="h", is_first_of_host=True, powercap=tmp_path)
    assert meter.describe() == {"kind": "energy", "host_name": "h", "device": "GPU-1", "host": "h"}
    nvml.energy_mj += 2_500_000
    for zone in zones:
        (zone / "energy_uj").write_text("2010")
    assert meter.read() == {"kind": "energy", "device_j": 3500.0, "host_j": 0.004}, "parts of a package count once"


def test_only_the_first_rank_of_a_host_reads_the_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_zone(tmp_path, "intel-rapl:0", energy_uj=10)
    meter = EnergyMeter(gpu=gpu_of(monkeypatch, Nvml()), host="h", is_first_of_host=False, powercap=tmp_path)
    assert set(meter.read() or {}) == {"kind", "device_j"}


def test_a_counter_that_starts_again_goes_on(tmp_path: Path) -> None:
    zone = make_zone(tmp_path, "intel-rapl:0", energy_uj=900, most_uj=1000)
    counter = PackageCounter(zone)
    for now, total in ((950, 50), (20, 120), (30, 130)):
        (zone / "energy_uj").write_text(str(now))
        assert counter.read_j() == pytest.approx(total / 1e6)


def test_what_is_missing_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for nvml, why in ((Nvml(has_counter=False), counter_missing()), (Nvml(mig=1), gpu_partitioned())):
        gpu = gpu_of(monkeypatch, nvml)
        meter = EnergyMeter(gpu=gpu, host="h", is_first_of_host=True, powercap=tmp_path / "none")
        facts = meter.describe()
        assert Message.from_json(facts["device_missing"]) == why
        assert Message.from_json(facts["host_missing"]) == no_powercap(path=str(tmp_path / "none"))
        assert meter.read() is None
    zone = make_zone(tmp_path, "intel-rapl:0", energy_uj=1)
    (zone / "energy_uj").unlink()
    (zone / "energy_uj").mkdir()  # also root, who runs tests, may not read this
    assert open_packages(tmp_path) == counter_unreadable(path=str(tmp_path), why="Is a directory")
