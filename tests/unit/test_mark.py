"""The hook, in processes of its own: what it reads at import decides what it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainmark import mark


def python(code: str, **variables: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in (mark.VARIABLE, "RANK")}
    argv = [sys.executable, "-c", f"import time\nfrom trainmark import mark\n{code}"]
    done = subprocess.run(argv, env={**environment, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def records(folder: Path, rank: int = 0) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / f"rank{rank}.jsonl").read_text().splitlines()]


def test_steps_are_the_time_between_two_calls(tmp_path: Path) -> None:
    code = "for n in range(4):\n    mark.step(samples=32, loss=0.5)\n    time.sleep(0.05)"
    python(code, TRAINMARK_MARK=str(tmp_path))
    start, *steps = records(tmp_path)
    assert start["kind"] == "run_start"
    assert [(step["kind"], step["step"], step["samples"], step["loss"]) for step in steps] == [
        ("step", number, 32, 0.5) for number in (1, 2, 3)
    ]
    assert all(float(str(step["seconds"])) >= 0.05 for step in steps)


def test_an_evaluation_is_in_no_step(tmp_path: Path) -> None:
    code = (
        "clock = [100.0]; mark.time.perf_counter = lambda: clock[0]\n"
        "mark.step(samples=1); clock[0] += 1; mark.step(samples=1)\n"
        "clock[0] += 50; mark.evaluation('top1', 0.7, epoch=3)\n"
        "clock[0] += 2; mark.step(samples=1)"
    )
    python(code, TRAINMARK_MARK=str(tmp_path))
    _, first, evaluation, second = records(tmp_path)
    assert (first["seconds"], second["seconds"]) == (1, 2)
    found = {key: evaluation[key] for key in ("kind", "step", "epoch", "metric", "value")}
    assert found == {"kind": "eval", "step": 1, "epoch": 3, "metric": "top1", "value": 0.7}


def test_nothing_happens_elsewhere(tmp_path: Path) -> None:
    python("mark.step(samples=1); mark.evaluation('x', 1.0); mark.step(samples=1)")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["/no/such/folder", "/dev/null"])
def test_a_folder_that_cannot_be_written_never_hurts_the_script(folder: str) -> None:
    assert python("mark.step(samples=1); mark.step(samples=1); print('fine')", TRAINMARK_MARK=folder) == "fine\n"


@pytest.mark.parametrize(
    "call",
    [
        "mark.step(samples=object(), loss=float('nan'))",
        "mark.step(samples=2, loss='high')",
        "mark.step(samples=2, loss=numpy.zeros(3))",
        "mark.step(samples=None)",
        "mark.evaluation('top1', None)",
        "mark.evaluation('top1', numpy.zeros(3), epoch='last')",
        "mark.evaluation(Odd(), 1.0)",
    ],
)
def test_odd_values_hurt_neither_the_script_nor_the_records_after_them(tmp_path: Path, call: str) -> None:
    odd = "class Odd:\n    def __str__(self): raise RuntimeError('no name')\n"
    code = f"import numpy\n{odd}mark.step(samples=1)\n{call}\nmark.step(samples=3, loss=0.5)\nprint('fine')"
    assert python(code, TRAINMARK_MARK=str(tmp_path)) == "fine\n"
    last = records(tmp_path)[-1]
    assert (last["kind"], last["samples"], last["loss"]) == ("step", 3, 0.5)


def test_a_loss_that_is_not_finite_is_null_and_one_that_cannot_be_read_is_absent(tmp_path: Path) -> None:
    code = "mark.step(samples=1)\nmark.step(samples=1, loss=float('inf'))\nmark.step(samples=1, loss=[1, 2])"
    python(code, TRAINMARK_MARK=str(tmp_path))
    _, infinite, unread = records(tmp_path)
    assert infinite["loss"] is None
    assert "loss" not in unread


def test_numbers_of_other_libraries_are_numbers(tmp_path: Path) -> None:
    code = (
        "import numpy\nmark.step(samples=1)\n"
        "mark.step(samples=numpy.int64(32), loss=numpy.float32(0.5))\n"
        "mark.step(samples=numpy.array(16))\nmark.evaluation('top1', numpy.float32(0.5), epoch=numpy.int64(2))"
    )
    python(code, TRAINMARK_MARK=str(tmp_path))
    _, first, second, evaluation = records(tmp_path)
    assert (first["samples"], first["loss"], second["samples"]) == (32, 0.5, 16)
    assert (evaluation["value"], evaluation["epoch"]) == (0.5, 2)


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    code = (
        "import threading\n"
        "def work():\n    for _ in range(200): mark.step(samples=2)\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]"
    )
    python(code, TRAINMARK_MARK=str(tmp_path))
    steps = [record for record in records(tmp_path) if record["kind"] == "step"]
    assert [step["step"] for step in steps] == list(range(1, 800))


def test_each_process_has_its_own_file(tmp_path: Path) -> None:
    """By the launcher's rank; and a forked child without one takes the next."""
    python("mark.step(samples=1); mark.step(samples=1)", TRAINMARK_MARK=str(tmp_path), RANK="3")
    assert len(records(tmp_path, 3)) == 2
    code = (
        "import os\nmark.step(samples=1); mark.step(samples=1)\n"
        "if os.fork() == 0:\n    mark.step(samples=5); mark.step(samples=5); os._exit(0)\n"
        "os.wait()"
    )
    python(code, TRAINMARK_MARK=str(tmp_path))
    assert [record.get("samples") for record in records(tmp_path, 0)] == [None, 1]
    assert [record.get("samples") for record in records(tmp_path, 1)] == [None, 5]


def test_a_second_phase_goes_on_in_the_same_file(tmp_path: Path) -> None:
    for _ in range(2):
        python("mark.step(samples=1); mark.step(samples=1)", TRAINMARK_MARK=str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["rank0.jsonl"]
    assert [record["kind"] for record in records(tmp_path)] == ["run_start", "step"] * 2
