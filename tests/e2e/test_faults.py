"""The fault matrix: real two-rank runs, each disturbed in one way; outcome, reason and the time until the end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from making import make_images
from trainmark.launch.processes import find
from trainmark.runfolder.files import Json, read_json
from trainmark.runfolder.records import read_records
from trainmark.store.folder import read_run
from waiting import wait_until

CPU = ["--device", "cpu", "--size", "small", "--max-seconds", "300", "--target-ci", "1e-9"]
PAIR = [*CPU, "--batch-size", "2", "--devices", "2", "--retries", "0"]
MOST_S = 120
"""Until every process has ended and the outcome is written, on a busy machine."""
QUICK = ["--hang-least-s", "3", "--hang-factor", "8"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    name: str
    signal: signal.Signals
    whom: str
    outcome: str
    reason: str
    look_at: str
    num_steps: int = 1
    """Before the fault: a hang is told only where there is a usual step."""
    flags: tuple[str, ...] = ()


MATRIX = (
    Fault(
        name="kill -9 of one rank",
        signal=signal.SIGKILL,
        whom="rank 1",
        outcome="killed",
        reason="rank 1 (pid PID on ",
        look_at="output.log",
    ),
    Fault(
        name="kill -9 of the launcher",
        signal=signal.SIGKILL,
        whom="launcher",
        outcome="killed",
        reason="the launcher (and all ranks with it) was killed by SIGKILL",
        look_at="output.log",
    ),
    Fault(
        name="SIGSTOP of one rank",
        signal=signal.SIGSTOP,
        whom="rank 1",
        outcome="hang",
        reason="(pid PID on ",
        look_at="rank1.stacks",
        num_steps=6,
        flags=tuple(QUICK),
    ),
    Fault(
        name="SIGTERM of one rank",
        signal=signal.SIGTERM,
        whom="rank 1",
        outcome="killed",
        reason="rank 1: interrupted by SIGTERM",
        look_at="rank1.jsonl",
        flags=("--epochs", "100", "--data", "DATA"),
    ),
)

CASES = [
    pytest.param(fault, id=fault.name, marks=[pytest.mark.serial] if fault.outcome == "hang" else [])
    for fault in MATRIX
]


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Printed below the tests, with or without -s."""
    lines: list[str] = []
    yield lines
    table = [f"{'fault':<26}{'outcome':<9}{'time to the end':>15}  reason", *lines]
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", *(line[:150] for line in table), sep="\n")


def start(store: Path, *flags: str, **environment: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "trainmark.cli.main", "run", "resnet50", *flags, "--store", str(store)]
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment}
    )


def wait_for_steps(store: Path, num_steps: int) -> tuple[Path, list[Json]]:
    """The run's folder and the first record of each rank."""

    def find_started() -> tuple[Path, list[Json]] | None:
        for folder in store.glob("*/"):
            ranks = [list(read_records(folder / f"rank{rank}.jsonl")) for rank in range(2)]
            if all(sum(record["kind"] == "step" for record in found) >= num_steps for found in ranks):
                return folder, [found[0] for found in ranks]
        return None

    found = wait_until(find_started, seconds=180, what=f"both ranks recorded {num_steps} steps")
    assert found is not None
    return found


def is_alive(pid: int) -> bool:
    """A zombie is not: it waits for nothing but its new parent's look."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize("fault", CASES)
def test_a_fault_ends_the_run_and_says_so(fault: Fault, tmp_path: Path, seen: list[str]) -> None:
    data = make_images(tmp_path / "data", per_class=8) if "DATA" in fault.flags else None
    flags = [str(data) if flag == "DATA" else flag for flag in fault.flags]
    process = start(tmp_path / "s", *PAIR, *flags)
    try:
        folder, starts = wait_for_steps(tmp_path / "s", fault.num_steps)
        launcher = psutil.Process(starts[1]["pid"]).ppid()
        victim = launcher if fault.whom == "launcher" else starts[1]["pid"]
        begin = time.monotonic()
        os.kill(victim, fault.signal)
        out, _ = process.communicate(timeout=MOST_S)
        took_s = time.monotonic() - begin
    finally:
        process.kill()
    ending = read_json(folder / "exit.json")
    assert ending is not None, out
    seen.append(f"{fault.name:<26}{ending['outcome']:<9}{took_s:>13.1f} s  {ending['reason']}")
    assert process.returncode == 1
    assert ending["outcome"] == fault.outcome, out
    assert fault.reason.replace("PID", str(victim)) in ending["reason"]
    assert ending["look_at"] == fault.look_at
    assert find(folder.name) == []
    assert not any(is_alive(record["pid"]) for record in starts)
    if fault.outcome == "hang":
        assert ending["reason"].endswith("is stopped; the others wait for it")
        stacks = [(folder / f"rank{rank}.stacks").read_text() for rank in range(2)]
        for text in stacks:
            assert {"worker/loop.py", "worker/main.py"} <= set(re.findall(r"worker/\w+\.py", text)), text
    if fault.signal is signal.SIGTERM:
        ends = [list(read_records(folder / f"rank{rank}.jsonl"))[-1] for rank in range(2)]
        assert [(end["kind"], end["outcome"]) for end in ends] == [("run_end", "killed")] * 2
        assert (folder / "checkpoint").stat().st_size > 1 << 20
    else:
        assert "Traceback" not in out


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_killed_controller_takes_its_ranks_with_it(tmp_path: Path, seen: list[str]) -> None:
    process = start(tmp_path / "s", *PAIR)
    try:
        folder, starts = wait_for_steps(tmp_path / "s", 1)
    finally:
        process.kill()
    begin = time.monotonic()
    process.communicate(timeout=30)
    wait_until(lambda: not any(is_alive(record["pid"]) for record in starts), what="no rank is alive")
    took_s = time.monotonic() - begin
    assert find(folder.name) == []
    row = read_run(folder)
    assert row is not None
    seen.append(f"{'kill -9 of the controller':<26}{row.outcome:<9}{took_s:>13.1f} s  {row.reason}")
    assert row.outcome == "killed"
    assert row.reason.startswith("the controller ended before the run did")
    assert len(row.seconds) >= 1, "the steps so far are kept"


@pytest.mark.parametrize("framework", ["torch", "paddle", "jax"])
def test_out_of_memory_and_nan_are_results_and_the_sweep_goes_on(
    framework: str, tmp_path: Path, seen: list[str]
) -> None:
    """A sweep of two cells: one needs more memory than it may have, the other has a rate that no loss stands."""
    flags = [*CPU, "--framework", framework, "--batch-size", "256,2", "--lr", "1e30"]
    process = start(tmp_path, *flags, TRAINMARK_MEMORY_LIMIT="2GB")
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    folders = {read_json(path / "run.json")["cell"]["batch_size_per_device"]: path for path in tmp_path.glob("*/")}  # type: ignore[index]
    memory, nan = (read_json(folders[batch] / "exit.json") or {} for batch in (256, 2))
    for name, ending in (("out of memory", memory), ("loss is no number", nan)):
        seen.append(
            f"{name + ', ' + framework:<26}{ending['outcome']:<9}{ending['wall_s']:>13.1f} s  {ending['reason']}"
        )
    assert memory["outcome"] == "oom"
    assert memory["reason"].endswith(
        "; out of memory within the 1.9 GiB that this process may use: use a smaller --batch-size"
    )
    assert nan["outcome"] == "nan"
    assert "learning rate was" in nan["reason"]
    assert "try --lr 0.002 (the recipe's own)" in nan["reason"]
    assert json.loads((folders[2] / "run.json").read_text())["memory_limit_bytes"] == 2_000_000_000
    assert "0/1 (oom)" in out
    assert "0/1 (nan)" in out
    assert ": oom: " in out
    assert ": nan: " in out
