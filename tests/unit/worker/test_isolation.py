"""What disturbs a run is told: decisions by hand-made samples, sensors by real processes, NVML by a fake module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from making import make_run
from trainmark.launch import job
from trainmark.messages.machine import busy_process
from trainmark.runfolder.records import RUN_TAG, read_records
from trainmark.store.folder import read_run
from trainmark.worker.recorder import Recorder
from trainmark.worker.telemetry.isolation import Isolation
from trainmark.worker.telemetry.neighbours import Neighbours, is_of_run
from trainmark.worker.telemetry.sampler import Telemetry, read_place
from trainmark.worker.telemetry.sensors import ClockSensor, GpuProcess, pick_foreign
from waiting import wait_until

Sample = dict[str, Any]


def judge(*samples: Sample, **given: Any) -> dict[str, str]:
    isolation = Isolation()
    for sample in samples:
        isolation.note(sample)
    return {warning.code: warning.english for warning in isolation.warnings(**given)}


def measured(num: int = 1, **readings: Any) -> list[Sample]:
    return [{"is_measuring": True, **readings}] * num


# -- throttling --------------------------------------------------------------------------------------------------------


def test_a_hot_card_is_told_with_share_reason_and_clock() -> None:
    hot = measured(10, gpu_throttle=["hardware thermal slowdown"], gpu_sm_mhz=1100)
    cool = measured(30, gpu_throttle=[], gpu_sm_mhz=1900)
    found = judge({"gpu_limits": {"sm_max_mhz": 1980}}, *hot, *cool)
    assert found == {
        "throttled": "GPU 0 was slowed down in 25% of 40 samples (hardware thermal slowdown); SM clock 1100 MHz "
        "then, 1900 otherwise, at most 1980; check fans and air flow, then run again"
    }


def test_a_moment_of_heat_and_heat_during_set_up_are_no_throttling() -> None:
    hot = {"gpu_throttle": ["hardware slowdown"], "gpu_sm_mhz": 900}
    assert judge(*measured(2, **hot)) == {}
    assert judge(*measured(4, **hot), *measured(96, gpu_throttle=[])) == {}
    assert list(judge(*measured(5, **hot), *measured(95, gpu_throttle=[]))) == ["throttled"]
    assert judge(*[{"is_measuring": False, **hot}] * 50, *measured(5, gpu_throttle=[])) == {}


def test_the_power_cap_counts_only_where_somebody_lowered_it() -> None:
    capped = measured(20, gpu_throttle=["software power cap"])
    assert judge({"gpu_limits": {"power_w": 700.0, "power_usual_w": 700.0}}, *capped) == {}
    assert judge(*capped) == {}
    found = judge({"gpu_limits": {"power_w": 500.0, "power_usual_w": 700.0}}, *capped)
    assert "software power cap of 500 W, usual 700 W); raise the limit" in found["throttled"]


# -- other processes on the GPU ----------------------------------------------------------------------------------------


def listed(*pids: int) -> list[GpuProcess]:
    """Each with as many MiB as its pid."""
    return [GpuProcess(pid=pid, used_bytes=pid << 20) for pid in pids]


def foreign(
    *pids: int, at_start: tuple[int, ...] = (), num_local_ranks: int = 1, own: tuple[int, ...] = ()
) -> set[int]:
    found = pick_foreign(
        listed(*pids),
        own_pid=7,
        is_own=lambda pid: pid in (7, *own),
        at_start=frozenset(at_start),
        num_local_ranks=num_local_ranks,
    )
    return {process.pid for process in found}


def test_where_pids_are_ours_the_tag_decides() -> None:
    assert foreign(7) == set()
    assert foreign(7, 8, 9, own=(8,)) == {9}
    assert foreign(7, 9, at_start=(9,)) == {9}


def test_where_pids_are_those_of_the_host_our_own_is_never_accused() -> None:
    assert foreign() == set()
    assert foreign(4001) == set()  # ours, by its pid on the host
    assert foreign(4001, 3000, at_start=(3000,)) == {3000}
    assert foreign(4001, 5000) == {4001}  # one of the two is foreign: the smaller one is said
    assert foreign(4001, 4002, 4003, 4004, num_local_ranks=4) == set()
    assert foreign(4001, 4002, 4003, 3000, at_start=(3000,), num_local_ranks=4) == {3000}


def test_a_shared_gpu_is_told_with_the_largest_guest() -> None:
    guests = [{"pid": 11, "used_bytes": 3 << 30, "name": "python3"}, {"pid": 12, "used_bytes": None, "name": None}]
    shared, alone = measured(3, gpu_foreign_processes=guests), measured(7, gpu_foreign_processes=[])
    message = judge(*shared, *alone, *measured(5))["foreign-gpu-process"]
    assert message.startswith("GPU 0 was shared in 3 of 10 samples, by python3 (pid 11) using 3.0 GiB and 1 more; end")
    assert judge(*shared[:1], *alone) == {}
    assert judge(*[{"gpu_foreign_processes": guests}] * 9, *alone) == {}


# -- the clock ---------------------------------------------------------------------------------------------------------


def shifts(*walls: float) -> list[Sample]:
    """What the sensor says, a sample a second, when the wall clock is `walls` ahead."""
    clock = SimpleNamespace(now=0.0, ahead=0.0)
    sensor = ClockSensor(wall=lambda: 1e9 + clock.now + clock.ahead, steady=lambda: clock.now)
    samples = []
    for ahead in walls:
        clock.now, clock.ahead = clock.now + 1, ahead
        samples.append(dict(sensor.read()))
    return samples


def test_a_clock_that_jumps() -> None:
    assert judge(*shifts(0, 0.1, 0.3, 0.1)) == {}
    assert judge(*shifts(*(0.01 * n for n in range(200)))) == {}  # two seconds off in the end, slowly
    message = judge(*shifts(0, 0, -3600, -3600))["clock-jump"]
    assert "jumped by -3600.0 s" in message
    assert "speed are not" in message
    assert "by +5.0 s (2 times, this is the largest)" in judge(*shifts(0, 5, 5, 2))["clock-jump"]


def test_being_held_up_between_two_readings_is_no_jump() -> None:
    steady = iter([0.0, 0.001, *(float(n) for n in range(6))])
    sensor = ClockSensor(wall=lambda: 0.0, steady=lambda: next(steady))
    assert sensor.read() == {}
    assert set(ClockSensor().read()) == {"clock_shift_s"}


# -- the host ----------------------------------------------------------------------------------------------------------


def load(other: float, *, own: float = 1.0, stolen: float = 0.0, cores: int = 4, seconds: float = 5.0) -> Sample:
    used = {"own_cores": own, "other_cores": other, "stolen_cores": stolen}
    return {"load": {"seconds": seconds, "num_cores": cores, **used}}


def test_neighbours_are_told_by_the_cores_they_used() -> None:
    assert judge(load(0.2)) == {}
    assert judge(load(-0.1)) == {}
    assert judge(load(0.3, cores=64)) == {}
    found = judge(load(2.0), load(0.0, seconds=15.0), busiest=busy_process(name="stress", pid=9, cores=0.49))
    assert found == {
        "noisy-neighbour": "other processes used 0.50 of 4 cores of this host while this run used 1.00, the busiest "
        "stress (pid 9) with 0.49; end them or use a free machine, then run again"
    }


def test_stolen_time_is_a_neighbour_too() -> None:
    assert judge(load(0.0, stolen=0.07)) == {}
    assert "gave 0.40 of 4 cores" in judge(load(0.0, stolen=0.4))["noisy-neighbour"]


def write_proc(root: Path, *, cores: list[tuple[int, int]], processes: dict[int, tuple[str, int, int]]) -> None:
    """`cores` are busy and stolen ticks; `processes` have an environment, own ticks and those of ended children."""
    lines = [
        f"cpu{n} {busy // 2} 0 {busy - busy // 2} 999 0 50 50 {stolen} 0 0" for n, (busy, stolen) in enumerate(cores)
    ]
    (root / "stat").write_text("cpu 0 0 0 0 0 0 0 0 0 0\n" + "\n".join(lines) + "\nintr 1 2 3\n")
    for pid, (environment, ticks, children) in processes.items():
        (root / str(pid)).mkdir(exist_ok=True)
        (root / str(pid) / "environ").write_text(environment)
        (root / str(pid) / "comm").write_text(f"name{pid}\n")
        numbers = f"{ticks // 2} {ticks - ticks // 2} {children} 0"
        (root / str(pid) / "stat").write_text(f"{pid} (a) b) S 1 1 1 0 -1 0 0 0 0 0 {numbers} 20 0")


def test_what_is_not_ours_is_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    now = [100.0]
    ours, theirs = "A=1\0TRAINMARK_RUN=r1\0", "TRAINMARK_RUN=r12\0"
    far = 2**22 + 1  # no process has such a pid
    write_proc(tmp_path, cores=[(0, 0), (0, 0), (0, 0)], processes={far: (ours, 50, 0), far + 1: (theirs, 70, 0)})
    neighbours = Neighbours("r1", proc=tmp_path, clock=lambda: now[0])
    assert neighbours.look() is None
    now[0] += 10
    # 12 s busy on our two cores (the third is not ours): 5 ours, of which 3 in a child that has ended; 1 s was stolen.
    write_proc(
        tmp_path,
        cores=[(700, 100), (500, 0), (900, 0)],
        processes={far: (ours, 250, 300), far + 1: (theirs, 770, 0), far + 2: (theirs, 0, 0)},
    )
    found = neighbours.look()
    used = {"own_cores": 0.5, "other_cores": 0.7, "stolen_cores": 0.1}
    assert found == {"seconds": 10.0, "num_cores": 2, **used}
    assert neighbours.busiest() == (far + 1, f"name{far + 1}", 0.7)
    now[0] += 0.1
    assert neighbours.look() is None
    assert neighbours.is_due() is False
    now[0] += 60
    assert neighbours.is_due() is True
    (tmp_path / "stat").write_text("")
    assert neighbours.look() is None


SPIN = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


@contextmanager
def spinning(tag: str | None) -> Iterator[int]:
    """A real process that is never idle, of that run or of nobody."""
    environment = {key: value for key, value in os.environ.items() if key != RUN_TAG}
    environment |= {RUN_TAG: tag} if tag else {}
    process = subprocess.Popen([sys.executable, "-S", "-c", SPIN], env=environment)
    try:
        wait_for_exec(process.pid)
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.mark.serial
def test_a_real_neighbour_is_told() -> None:
    neighbours = Neighbours("r1")
    with spinning(None) as other:
        assert not is_of_run(other, "r1")
        neighbours.look()
        before_s = cpu_s(other)
        time.sleep(1.2)
        other_s = cpu_s(other) - before_s
        found = neighbours.look()
        busiest = neighbours.busiest()
    assert found is not None
    assert found["other_cores"] * found["seconds"] >= 0.7 * other_s - 0.1  # the kernel counts cores by ticks
    assert judge({"load": found})["noisy-neighbour"].startswith("other processes used")
    assert busiest is not None
    assert busiest[2] >= 0.7 * other_s / 1.2 - 0.1


@pytest.mark.serial
def test_real_processes_of_our_own_are_no_neighbours() -> None:
    neighbours = Neighbours("r1")
    with spinning("r1") as own:
        assert RUN_TAG == job.RUN_TAG
        assert is_of_run(own, "r1")
        assert not is_of_run(own, "r")
        neighbours.look()
        before_s = cpu_s(own)
        time.sleep(1.2)
        own_s = cpu_s(own) - before_s
        found = neighbours.look()
        busiest = neighbours.busiest()
    assert found is not None
    assert found["own_cores"] * found["seconds"] >= own_s - 0.03
    assert busiest is None or busiest[0] != own
    if found["other_cores"] > 0.25:
        pytest.skip(f"this machine has neighbours of its own: {found['other_cores']} cores")
    assert judge({"load": found}) == {}


def wait_for_exec(pid: int) -> None:
    wait_until(lambda: b"python" in Path(f"/proc/{pid}/cmdline").read_bytes(), what="the process has started")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- all of it ---------------------------------------------------------------------------------------------------------


class FakeNvml:
    """As much of `pynvml` as is used, on a card that somebody else uses, and that is too hot."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        self.pids = [1]

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        raise self.NVMLError

    def nvmlDeviceGetClockInfo(self, handle: int, which: int) -> int:  # noqa: N802
        return 1000

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:  # noqa: N802
        return 0x20 | 0x4

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:  # noqa: N802
        return 300_000

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: int) -> int:  # noqa: N802
        return 300_000

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=1 << 30) for pid in (1, os.getpid())]


@pytest.mark.serial
def test_a_run_ends_with_its_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    monkeypatch.setattr("trainmark.worker.telemetry.sampler._PERIOD_S", 0.1)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name, value in {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", RUN_TAG: "r1"}.items():
        monkeypatch.setenv(name, value)
    folder = make_run(tmp_path, "run")
    recorder = Recorder(folder / "rank3.jsonl")
    path = folder / "rank3.jsonl"
    with Telemetry(recorder, gpu_index=1):
        wait_for_samples(path, 2)
        recorder.write({"kind": "step", "step": 1})
        wait_for_samples(path, 7)
        recorder.write({"kind": "phase", "phase": "end", "edge": "end"})
    recorder.close()
    samples = read_samples(path)
    assert [sample["is_measuring"] for sample in samples][:2] == [False, False]
    assert sum(sample["is_measuring"] for sample in samples) >= 3
    assert sum("gpu_limits" in sample for sample in samples) == 1
    assert not any("clock_shift_s" in sample or "load" in sample for sample in samples)  # not the first of its host
    row = read_run(folder)
    assert row is not None
    assert [warning["code"] for warning in row.warnings] == ["foreign-gpu-process", "throttled"]
    shared, hot = (warning["message"] for warning in row.warnings)
    assert "(rank 3) was shared" in shared
    assert "pid 1) using 1.0 GiB" in shared
    assert "100% of" in hot
    assert "(software thermal slowdown); SM clock 1000" in hot


@pytest.mark.serial
def test_the_first_rank_of_a_host_looks_at_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmark.worker.telemetry.sampler._PERIOD_S", 0.1)
    path = tmp_path / "rank0.jsonl"
    recorder = Recorder(path)
    with Telemetry(recorder, gpu_index=None):
        recorder.write({"kind": "step", "step": 1})
        wait_for_samples(path, 1)
        time.sleep(0.7)
    recorder.close()
    samples = read_samples(path)
    assert any("clock_shift_s" in sample for sample in samples)
    assert all(abs(sample.get("clock_shift_s", 0.0)) < 0.5 for sample in samples)
    assert "load" not in samples[0]
    loads = [sample["load"] for sample in samples if "load" in sample]
    assert loads
    assert loads[0]["num_cores"] >= 1


def read_samples(path: Path) -> list[Sample]:
    return [record for record in read_records(path) if record["kind"] == "telemetry"]


def wait_for_samples(path: Path, num: int) -> None:
    wait_until(lambda: len(read_samples(path)) >= num, what=f"{num} samples are recorded")


def test_warnings_of_all_ranks_are_read_once(tmp_path: Path) -> None:
    late = {"kind": "warning", "code": "target-not-reached", "message": "no"}
    folder = make_run(tmp_path, "run", extra=[late])
    hot = {"kind": "warning", "code": "throttled", "message": "GPU 1"}
    lines = [late, {"kind": "step", "step": 1, "seconds": 9.0, "samples": 1, "note": "warning"}, hot]
    (folder / "rank1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"kind":"warning"')
    row = read_run(folder)
    assert row is not None
    assert [warning["code"] for warning in row.warnings] == ["target-not-reached", "throttled"]
    assert len(row.seconds) == 50


def test_places() -> None:
    place = read_place({"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8"})
    assert (place.rank, place.num_ranks, place.is_first_of_host, place.num_local_ranks) == (9, 16, False, 8)
    alone = read_place({})
    assert (alone.rank, alone.num_ranks, alone.is_first_of_host, alone.num_local_ranks) == (0, 1, True, 1)
