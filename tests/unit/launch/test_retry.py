"""Which endings are worth another try: a table of what real programs print."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from trainmark.launch.endings import Ending, why_retry
from trainmark.launch.processes import kill_left
from trainmark.launch.warden import Warden
from trainmark.messages.endings import killed, raised, sigkill
from trainmark.runfolder.records import RUN_TAG, Outcome
from waiting import wait_until

TORCHRUN = """
E1115 failed (exitcode: 1) local_rank: 1 (pid: 77) of binary: python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
Root Cause (first observed failure): rank : 1 (local_rank: 1) exitcode  : 1 (pid: 77)
"""
LOST = "RuntimeError: [../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:2117"


@pytest.mark.parametrize(
    ("outcome", "reason", "output", "helps"),
    [
        (Outcome.KILLED, killed(how=sigkill()).english, "", True),
        (Outcome.KILLED, "the command was killed by SIGTERM", "", True),
        (Outcome.KILLED, "killed by SIGSEGV", "", False),
        (Outcome.KILLED, "interrupted by SIGTERM", "Signal 11 (SIGSEGV) received by PID 77", False),
        (Outcome.KILLED, "interrupted by SIGTERM", "Signal 9 (SIGKILL) received by PID 77", True),
        (Outcome.KILLED, "killed by SIGABRT", "Watchdog caught collective operation timeout: WorkNCCL", True),
        (Outcome.HANG, "no step for 61 s", "", True),
        (Outcome.FAILED, LOST, LOST, True),
        (Outcome.FAILED, "exit code 1", "srun: error: Node failure on gpu7\nsrun: Job step aborted", True),
        (Outcome.FAILED, "exit code 1", "*** STEP 7.0 ON gpu7 CANCELLED AT 2026-11-16 DUE TO NODE FAILURE ***", True),
        (Outcome.FAILED, "the command ended with exit code 1: ======", LOST + TORCHRUN, True),
        (Outcome.FAILED, "exit code 1", "[rank1]: KeyError: 'labels'\n[rank0]: " + LOST + TORCHRUN, False),
        (Outcome.FAILED, "exit code 1", "OSError: [Errno 98] Address already in use", True),
        (Outcome.FAILED, "exit code 1", "torch.distributed.DistNetworkError: The server socket has failed", True),
        (Outcome.FAILED, "exit code 1", "ncclRemoteError: A call failed possibly due to a network error", True),
        (Outcome.FAILED, "exit code 1", "RuntimeError: NCCL error: unhandled cuda error", False),
        (Outcome.FAILED, "KeyError: 'labels'", "KeyError: 'labels'", False),
        (Outcome.FAILED, "the loss did not fall", "", False),
        (Outcome.OUT_OF_MEMORY, "CUDA out of memory", LOST, False),
        (Outcome.NAN, "the loss was nan at step 3", "", False),
        (Outcome.TIMEOUT, "took longer than 10 s", LOST, False),
        (Outcome.OK, "the command ended with exit code 0", LOST, False),
    ],
)
def test_what_a_retry_can_help(outcome: Outcome, reason: str, output: str, helps: bool) -> None:
    ending = Ending(outcome=outcome, reason=raised(error=reason), look_at="output.log")
    assert (why_retry(ending, output) is not None) is helps


def start_sleeper(run_id: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"], env={**os.environ, RUN_TAG: run_id}
    )


def test_leftovers_are_ended_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    left, other = start_sleeper("retry-test-a"), start_sleeper("retry-test-b")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(psutil.Process, "kill", lambda _: None)  # as one that is stuck in the kernel
            assert kill_left(["retry-test-a"], limit_s=0.2) == [left.pid]
        assert kill_left(["retry-test-a"]) == []
        assert left.wait(10) == -9
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_an_orderly_end_leaves_no_warden() -> None:
    with Warden() as warden:
        warden.watch("retry-test-c", [])
        process = warden._process
        assert process is not None
        time.sleep(0.05)
        assert process.poll() is None
    assert process.poll() is not None


def test_a_dead_controllers_queued_job_is_cancelled(tmp_path: Path) -> None:
    """The warden does it: nobody else is left who knows of the job."""
    cancelled = tmp_path / "cancelled"
    source = (
        "import os, signal; from trainmark.launch.job import Command; from trainmark.launch.warden import Warden\n"
        f"with Warden() as w: w.watch('retry-test-d', [Command(argv=(), cancel=('touch', {str(cancelled)!r}))]); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", source], check=False, timeout=30)
    wait_until(cancelled.exists, what="the queued job is cancelled")
