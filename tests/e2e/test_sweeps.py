"""Sweeps that are killed, interrupted and continued, with real controllers and scripts that cost next to nothing."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import pytest
from controllers import finished, folders, living

from trainmark.cli.main import main
from trainmark.launch import supervise
from waiting import wait_until

# All lines at once: the time between lines that come one by one is a clock, and no two sweeps would be equal.
LOGS = """
import sys, time
batch, precision = int(sys.argv[1]), sys.argv[2]
if (batch, precision) == (8, "amp"):
    raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
line = "Epoch: [0][{}/12]\\tTime  {:.3f} ( 0.1)\\tLoss {:.4f} (1.0)\\n"
sys.stdout.write("".join(line.format(i, batch / 100, 1 + 1 / (batch + i)) for i in range(12)))
sys.stdout.flush()
time.sleep(0.02)
if (batch, precision) == (4, "amp"):
    raise KeyError("labels")
"""
FLAGS = ["--batch-size", "1,2,4,8", "--precision", "fp32,amp", "--repeat", "5"]
NUM_CELLS = 40
SLEEPS = "import time\nprint('up', flush=True)\ntime.sleep(100)\n"


def write_script(folder: Path, text: str, *words: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    path = folder / "script.py"
    path.write_text(text)
    return ["--", sys.executable, "-I", "-S", str(path), *words]


def run_here(store: Path, *argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]], str]:
    code = main(["run", "--store", str(store), "--json", *argv])
    out, err = capsys.readouterr()
    return code, json.loads(out)["results"], err


def show(store: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["show", "--json", "--store", str(store)]) == 0
    results: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["results"]
    return results


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "_POLL_S", 0.02)


def without_times(result: dict[str, Any]) -> dict[str, Any]:
    own = ("id", "wall_s", "sweep", "attempt", "retry_of", "first_step_s")
    identity = {name: value for name, value in result["identity"].items() if name != "time"}
    return {name: value for name, value in result.items() if name not in own} | {"identity": identity}


def test_40_cells_killed_ten_times_give_the_results_of_an_undisturbed_sweep(
    tmp_path: Path, start_controller: Callable[..., BaseProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*FLAGS, *write_script(tmp_path, LOGS, "{batch_size}", "{precision}")]
    chance, torn = random.Random(5), tmp_path / "torn"
    kept: dict[str, str] = {}
    for number in range(1, 11):
        process = start_controller(torn, *asked)
        wanted = min(len(kept) + chance.randrange(5), 3 * number)
        wait_until(lambda: len(list(torn.glob("*/exit.json"))) >= wanted, what="the next runs are done")  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.2))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, "it was done before it was killed"
        wait_until(lambda: not living(torn), what="no process outlives its controller")
        now = finished(torn)
        assert kept.items() <= now.items(), "a finished run was lost"
        kept = now
    code, results, err = run_here(torn, *asked, capsys=capsys)
    assert f"{len(kept)} of {NUM_CELLS} runs already done" in err
    assert kept.items() <= finished(torn).items()
    assert set(kept) <= {result["id"] for result in results}, "what was done before the kill is in the table"

    whole_code, whole, _ = run_here(tmp_path / "whole", *asked, capsys=capsys)
    assert code == whole_code == 1
    for one, other in zip(results, whole, strict=True):
        assert without_times(one) == without_times(other)
    assert len(results) == NUM_CELLS
    assert {result["outcome"] for result in results} == {"ok", "oom", "failed"}
    assert results[0]["throughput"]["value"] == pytest.approx(100.0)
    shown = show(torn, capsys)
    # For a minute, one that was killed before its output.log was there cannot be told from one that is starting.
    cut = {result["id"] for result in shown if result["outcome"] in ("killed", None)}
    assert sorted({result["id"] for result in shown} - cut) == sorted(r["id"] for r in results)
    assert {result["retry_of"] for result in shown} - {None} == cut, "each was made again"


def test_a_finished_sweep_is_measured_anew_and_fresh_leaves_an_unfinished_one(
    tmp_path: Path, start_controller: Callable[..., BaseProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "s"
    slow = (
        "import sys, time, pathlib\ntime.sleep(60 if sys.argv[1] == '2' and pathlib.Path(sys.argv[2]).exists() else 0)"
    )
    asked = ["--batch-size", "1,2", *write_script(tmp_path, slow, "{batch_size}", str(tmp_path / "slow"))]
    _, first, err = run_here(store, *asked, capsys=capsys)
    _, second, err = run_here(store, *asked, capsys=capsys)
    assert "continuing" not in err
    assert len({result["id"] for result in first + second}) == 4
    (tmp_path / "slow").touch()
    process = start_controller(store, *asked)
    wait_until(lambda: len(folders(store)) == 6 and living(store), what="the sixth run is going on")
    (tmp_path / "slow").unlink()
    _, beside, err = run_here(store, *asked, capsys=capsys)  # while the other lives: a sweep of its own
    assert "continuing" not in err
    assert len({result["sweep"] for result in first + second + beside}) == 3
    process.kill()
    process.join()
    _, anew, err = run_here(store, "--fresh", *asked, capsys=capsys)
    assert "continuing" not in err
    _, last, err = run_here(store, *asked, capsys=capsys)
    assert "continuing" not in err, "what --fresh left is not taken up again"
    assert all(result["outcome"] == "ok" and result["attempt"] == 1 for result in anew + last)


def test_sigterm_ends_in_order_and_the_same_command_goes_on(
    tmp_path: Path, start_controller: Callable[..., BaseProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "s"
    text = "import os, sys, time\ntime.sleep(0 if sys.argv[1] == '1' or os.path.exists(sys.argv[2]) else 60)"
    asked = ["--batch-size", "1,2", *write_script(tmp_path, text, "{batch_size}", str(tmp_path / "quick"))]
    process = start_controller(store, *asked)
    wait_until(lambda: len(folders(store)) == 2 and living(store), what="the second run is going on")
    process.terminate()
    process.join(30)
    assert process.exitcode == 143
    done, cut = sorted(show(store, capsys), key=lambda result: result["batch_size_per_device"] or 0)
    assert (done["outcome"], cut["outcome"]) == ("ok", "killed")
    assert cut["reason"] == "interrupted by SIGTERM; the steps so far are kept"
    (tmp_path / "quick").touch()
    code, results, err = run_here(store, *asked, capsys=capsys)
    assert "1 of 2 runs already done" in err
    assert (code, results[0]["id"]) == (1, done["id"])  # both ended well, but neither printed a speed
    assert (results[1]["retry_of"], results[1]["attempt"], results[1]["outcome"]) == (cut["id"], 2, "ok")


RETRIED = """
import os, pathlib, signal, sys
print("Epoch: [0][1/12]\\tTime  0.100 ( 0.1)\\tLoss 1.0 (1.0)", flush=True)
times = pathlib.Path(sys.argv[1])
times.write_text(times.read_text() + "x" if times.exists() else "x")
if len(times.read_text()) <= int(sys.argv[2]):
    {how}
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
REFUSED = "raise ConnectionRefusedError(111, 'Connection refused')"


@pytest.mark.parametrize(
    ("how", "num_bad", "flags", "outcomes"),
    [
        (KILL, 1, [], ["killed", "ok"]),
        (REFUSED, 2, ["--retries", "2"], ["failed", "failed", "ok"]),
        (KILL, 9, [], ["killed", "killed"]),
        (KILL, 1, ["--retries", "0"], ["killed"]),
        ("raise KeyError('labels')", 1, [], ["failed"]),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 1, [], ["killed"]),
    ],
)
def test_only_what_may_go_better_is_tried_again(
    how: str,
    num_bad: int,
    flags: list[str],
    outcomes: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = write_script(tmp_path, RETRIED.replace("{how}", how), str(tmp_path / "times"), str(num_bad))
    code, (result,), err = run_here(tmp_path / "s", *flags, *asked, capsys=capsys)
    assert (code, result["outcome"]) == (0 if outcomes[-1] == "ok" else 1, outcomes[-1])
    shown = show(tmp_path / "s", capsys)
    assert [each["outcome"] for each in shown] == outcomes
    assert [each["attempt"] for each in shown] == list(range(1, len(outcomes) + 1))
    assert [each["retry_of"] for each in shown] == [None, *(each["id"] for each in shown[:-1])]
    assert err.count("retrying: ") == len(outcomes) - 1
    assert main(["show", "--store", str(tmp_path / "s")]) == 0
    table = capsys.readouterr().out
    assert [each["id"] in table for each in shown[:-1]] == [False] * (len(shown) - 1), "an attempt is no result"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux")
def test_a_killed_controller_leaves_no_process_of_a_process(
    tmp_path: Path, start_controller: Callable[..., BaseProcess]
) -> None:
    """The kernel ends the script with its controller; the script's own child has a session of its own."""
    child = f"subprocess.Popen([sys.executable, '-I', '-S', '-c', {SLEEPS!r}], start_new_session=True)"
    asked = write_script(tmp_path, f"import subprocess, sys, time\n{child}\ntime.sleep(100)")
    store = tmp_path / "s"
    process = start_controller(store, *asked)
    wait_until(lambda: len(living(store)) == 2, what="two processes are running")
    left = living(store)
    assert len(left) == 2
    (warden,) = wardens(process.pid)
    process.kill()
    process.join()
    _, alive = psutil.wait_procs(left, timeout=10)
    assert alive == []
    _, alive = psutil.wait_procs([warden], timeout=10)
    assert alive == [], "the warden ends with its work"


def wardens(controller: int | None) -> list[psutil.Process]:
    children = psutil.Process(controller).children(recursive=True)
    return [child for child in children if "trainmark.launch.warden" in child.cmdline()]
