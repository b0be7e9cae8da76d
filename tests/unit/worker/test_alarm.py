from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from trainmark.silence_limit import STACKS_SIGNAL, SilenceLimit
from trainmark.worker.alarm import Alarm
from waiting import wait_until

QUICK = SilenceLimit(least_s=0.1, factor=2.0)

pytestmark = pytest.mark.serial


def wait_for(path: Path, text: str) -> str:
    wait_until(lambda: text in path.read_text(), what=f"{text!r} is in {path.name}")
    return path.read_text()


def test_stacks_are_left_where_no_edge_comes(tmp_path: Path) -> None:
    path = tmp_path / "rank0.stacks"
    alarm = Alarm(path, QUICK)
    alarm.expect_step([0.01] * 5)
    assert "test_stacks_are_left" in wait_for(path, "test_stacks_are_left")
    alarm.expect_step([0.01] * 5)
    assert "the loop continued" in path.read_text(), "a reader must see that it was no hang"
    alarm.close()
    assert path.stat().st_size > 0


def test_pauses_and_edges_in_time_leave_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rank0.stacks"
    alarm = Alarm(path, QUICK)
    alarm.expect_pause()
    time.sleep(0.2)
    alarm.expect_step([0.01])
    for _ in range(5):
        alarm.expect_step([0.01] * 5)
    assert path.read_text() == ""
    alarm.close()
    assert not path.exists()


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    alarm = Alarm(tmp_path / "no" / "rank0.stacks", QUICK)
    alarm.expect_step([0.01] * 5)
    alarm.close()


MAIN = "thread MainThread (most"


def count_in(path: Path, text: str) -> int:
    return path.read_text().count(text)


def test_threads_that_run_meanwhile_do_not_harm(tmp_path: Path) -> None:
    """`faulthandler` reads the stacks of running threads without the lock: this loop ended with SIGSEGV."""
    is_over = threading.Event()

    def run_deep(depth: int) -> int:
        return run_deep(depth - 1) if depth else len(str(depth))

    def spin() -> None:
        while not is_over.is_set():
            run_deep(30)

    thread = threading.Thread(target=spin)
    thread.start()
    path = tmp_path / "rank0.stacks"
    alarm = Alarm(path, SilenceLimit(least_s=0.001, factor=0.001))
    try:
        for count in range(1, 31):
            alarm.expect_step([0.001] * 5)
            wait_until(lambda expected=count: count_in(path, MAIN) == expected, what="the stacks")
    finally:
        is_over.set()
        thread.join()
    assert count_in(path, "in spin\n") == 30, "each to its end"
    alarm.close()


HOLDS_THE_LOCK = """
import ctypes, sys
from pathlib import Path
from trainmark.silence_limit import SilenceLimit
from trainmark.worker.alarm import Alarm

alarm = Alarm(Path(sys.argv[1]), SilenceLimit(least_s=0.1, factor=0.1))
alarm.expect_step([0.1] * 5)
def wait_in_c():
    print("waiting", flush=True)
    ctypes.PyDLL(None).sleep(60)
wait_in_c()
"""


def test_a_thread_that_keeps_the_lock_in_c_leaves_its_stack_on_the_signal(tmp_path: Path) -> None:
    path = tmp_path / "rank0.stacks"
    argv = [sys.executable, "-c", HOLDS_THE_LOCK, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        os.kill(process.pid, STACKS_SIGNAL)
        wait_for(path, "wait_in_c")
        process.kill()
