"""Samples per joule: the counters of all devices over the steady steps, each device once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from making import make_cell, make_run
from trainmark.analyse.analysis import analysis_of
from trainmark.analyse.table import build_lines
from trainmark.messages.energy import (
    counter_missing,
    energy_disagrees,
    energy_not_recorded,
    energy_part_missing,
    energy_too_short,
)
from trainmark.report.cells import say_per_joule
from trainmark.report.energy import describe_energy
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow

Record = dict[str, Any]


def steps(num: int, *, seconds: float = 0.1, begin: float = 0.0) -> list[Record]:
    return [
        {"kind": "step", "step": n + 1, "seconds": seconds, "samples": 32, "time_s": seconds * n,
         "unix_s": begin + seconds * (n + 1)}
        for n in range(num)
    ]  # fmt: skip


def counter(name: str, *, watts: float, until: float, offset: float = 0.0, kind: str = "device") -> list[Record]:
    readings = [
        {"kind": "energy", f"{kind}_j": watts * (0.5 * n + offset), "unix_s": 0.5 * n + offset}
        for n in range(int(2 * until) + 1)
    ]
    return [{"kind": "energy", kind: name, "unix_s": 0.0}, *readings]


def power(watts: float, until: int) -> list[Record]:
    return [{"kind": "telemetry", "gpu_power_w": watts, "unix_s": float(n)} for n in range(until)]


def make(root: Path, ranks: list[list[Record]], *, devices: int = 1, device: str = "cuda") -> RunRow:
    cell = make_cell(device=device, devices_per_node=devices, batch_size_per_device=32 // devices)
    folder = make_run(root, "run", cell=cell, seconds=[], extra=ranks[0])
    for rank, records in enumerate(ranks[1:], start=1):
        (folder / f"rank{rank}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    row = read_run(folder)
    assert row is not None
    return row


def test_samples_over_joules_of_the_same_steps(tmp_path: Path) -> None:
    """320 images/s at 500 W."""
    row = make(tmp_path, [[*steps(200), *counter("GPU-a", watts=500, until=22), *power(499, 20)]])
    found = describe_energy(row)
    assert found is not None
    assert found["samples_per_joule"] == pytest.approx(0.64, rel=1e-3)
    low, high = found["ci95"]
    assert low <= 0.64 * 1.001
    assert high >= 0.64 * 0.999
    assert found["device"]["watts"]["value"] == pytest.approx(500)
    assert found["device"]["sampled_watts"] == pytest.approx(499)
    assert found["host"]["why_not_measured"] == energy_not_recorded().english
    (line,) = build_lines([row])
    assert say_per_joule(line, "en").startswith("0.640")
    assert "energy-disagrees" not in [warning["code"] for warning in analysis_of(row).warnings]


def test_eight_ranks_on_two_gpus_count_two(tmp_path: Path) -> None:
    """Four ranks read the counter of each GPU; the readings of a rank are at times of its own."""
    ranks = [
        [*(steps(200) if rank == 0 else []), *counter(f"GPU-{rank % 2}", watts=300, until=22, offset=0.01 * rank)]
        for rank in range(8)
    ]
    row = make(tmp_path, ranks, devices=8)
    device = analysis_of(row).powers["device"]
    assert device.num_counters == 2
    assert device.watts is not None
    assert device.watts.value == pytest.approx(600, rel=1e-3)


def test_a_device_without_a_counter_leaves_no_number(tmp_path: Path) -> None:
    missing = {"kind": "energy", "device_missing": counter_missing().to_json(), "unix_s": 0.0}
    row = make(tmp_path, [[*steps(200), *counter("GPU-0", watts=300, until=22)], [missing]], devices=2)
    device = analysis_of(row).powers["device"]
    assert device.watts is None
    assert device.missing == energy_part_missing(known=1, devices=2, why=counter_missing())


def test_the_warm_up_and_pauses_do_not_count(tmp_path: Path) -> None:
    """1000 W before the first steady step and in an evaluation of 10 s, 200 W in between."""
    used, joules = [], 0.0
    for tick in range(121):
        now = tick / 2
        is_idle = now < 5.0 or 20 <= now < 30
        joules += 0.5 * (1000 if is_idle else 200)
        used.append({"kind": "energy", "device_j": joules, "unix_s": now + 0.5})
    pause = {"kind": "phase", "phase": "eval", "edge": "end", "step": 150, "seconds": 10.4, "unix_s": 30.2}
    records = [
        {"kind": "energy", "device": "GPU-0", "unix_s": 0.0},
        {**steps(1)[0], "seconds": 5.0, "unix_s": 5.0},
        *steps(148, begin=5.0),
        pause,
        *steps(200, begin=30.2),
        *used,
    ]
    device = analysis_of(make(tmp_path, [records])).powers["device"]
    assert device.watts is not None
    assert device.watts.value == pytest.approx(200, rel=0.01)


def test_too_few_readings_are_said(tmp_path: Path) -> None:
    device = analysis_of(make(tmp_path, [[*steps(20), *counter("GPU-0", watts=5, until=22)]])).powers["device"]
    assert device.watts is None
    assert device.missing is not None
    assert device.missing.code == energy_too_short.code


def test_sampled_power_that_disagrees_is_a_warning(tmp_path: Path) -> None:
    row = make(tmp_path, [[*steps(200), *counter("GPU-a", watts=500, until=22), *power(300, 20)]])
    (warning,) = (found for found in analysis_of(row).warnings if found["code"] == energy_disagrees.code)
    assert "500 W on average, by sampled power 300 W: 40% apart" in warning["message"]


def test_a_sample_that_began_before_the_steady_steps_is_left_out(tmp_path: Path) -> None:
    """80 W until the steps begin, 250 W then. Each sample is the mean of the second before it."""
    times = [n / 2 for n in range(24)]
    used = [{"kind": "energy", "device_j": 80 * now + 170 * max(0.0, now - 4.0), "unix_s": now} for now in times]
    shown = [{"kind": "telemetry", "gpu_power_w": 250.0, "unix_s": n + 0.2} for n in range(5, 11)]
    partly = {"kind": "telemetry", "gpu_power_w": 97.0, "unix_s": 4.2}
    name = {"kind": "energy", "device": "GPU-a", "unix_s": 0.0}
    row = make(tmp_path, [[name, *steps(70, begin=4.0), *used, partly, *shown]])
    device = analysis_of(row).powers["device"]
    assert device.sampled_w == pytest.approx(250)
    assert device.counter_w == pytest.approx(250)


def test_a_run_on_the_processor_counts_the_processor(tmp_path: Path) -> None:
    row = make(tmp_path, [[*steps(200), *counter("h", watts=160, until=22, kind="host")]], device="cpu")
    found = describe_energy(row)
    assert found is not None
    assert (found["scope"], found["samples_per_joule"]) == ("host", pytest.approx(2.0, rel=1e-3))


def test_a_run_of_an_older_version_is_not_measured(tmp_path: Path) -> None:
    row = make(tmp_path, [steps(50)])
    assert analysis_of(row).powers["device"].missing == energy_not_recorded()
    (line,) = build_lines([row])
    assert say_per_joule(line, "en") == "–"
