"""Which rank died, and of what, told from the launcher's words and the kernel's counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainmark.launch.endings import Death, Ending, decide, find_deaths, infer_ends, why_retry
from trainmark.launch.processes import read_oom_kills
from trainmark.messages.message import Message
from trainmark.messages.ranks import name_rank
from trainmark.runfolder.files import Json
from trainmark.runfolder.records import Outcome

TORCHRUN = """E1115 08:22:18 api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 20991) of binary: python
=======================================================
trainmark.worker.main FAILED
-------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-15_08:22:18
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 20990)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 20990
-------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-15_08:22:18
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 20991)  (SIGKILL)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 20991
"""
BOTH_DEAD_IN_ONE_LOOK = """
Failures:
[1]:
  time      : 2026-11-19_22:40:19
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 3052)  (SIGKILL)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 3052
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-19_22:40:19
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 3051)
  error_file: <N/A>
"""
PADDLE = """LAUNCH INFO 2026-11-18 20:35:28,113 Pod failed
LAUNCH ERROR 2026-11-18 20:35:28,114 Container failed !!!
Container rank 0 status failed cmd ['python', '-m', 'x', 'a] code 1 log b'] code -6 log /runs/r/paddle/workerlog.0
LAUNCH INFO 2026-11-18 20:35:28,114 ------------------------- ERROR LOG DETAIL -------------------------
"""
"""Of Paddle 3.3.1, when rank 1 was killed and rank 0 aborted in the same second."""
OWN = """  what():  [gloo/transport/tcp/pair.cc:584] TIMEOUT self_rank = 0 pair_rank = 1 peer_str = [127.0.0.1]:54186
trainmark: rank 0 (pid 20990 on vm) ended: signal 6
trainmark: rank 1 (pid 20991 on vm) ended: signal 9
"""
GLOO = {"outcome": "failed", "reason": "RuntimeError: Connection closed by peer", "unix_s": 5.0}


@pytest.mark.parametrize(
    ("output", "death"),
    [
        (TORCHRUN, Death(rank=1, code=-9, pid=20991, host="localhost")),
        (
            "mpirun noticed that process rank 3 with PID 0 on node n2 exited on signal 9 (Killed).",
            Death(rank=3, code=-9, host="n2"),
        ),
        ("srun: error: n1: task 1: Segmentation fault", Death(rank=1, code=-11, host="n1")),
        ("srun: error: n1: tasks 4-7: Killed", Death(rank=4, code=-9, host="n1")),
        ("srun: error: n1: task 1: Exited with exit code 137", Death(rank=1, code=-9, host="n1")),
        ("srun: error: n1: task 1: Exited with exit code 2", Death(rank=1, code=2, host="n1")),
        (PADDLE, Death(rank=0, code=-6, is_first=False)),
        ("trainmark: rank 1 (pid 5 on vm) was the first to end: signal 9", Death(rank=1, code=-9, pid=5, host="vm")),
        ("trainmark: rank 2 (pid 5 on vm) was the first to end: exit code 3", Death(rank=2, code=3, pid=5, host="vm")),
    ],
)
def test_launchers_tell_who_died(output: str, death: Death) -> None:
    assert find_deaths(output) == [death]
    assert find_deaths("all well") == []


def end_of(
    ends: dict[int, Json], output: str, *, returncode: int = 1, killed: bool = False, has_launcher: bool = True
) -> Ending:
    inferred = infer_ends(
        ends,
        started={rank: name_rank(rank=rank, pid=20990 + rank, host=None) for rank in (0, 1)},
        has_launcher=has_launcher,
        output=output,
        returncode=returncode,
        was_oom_killed=killed,
    )
    return decide(run_ends={**ends, **inferred}, returncode=returncode, ended_by=None)


def test_the_rank_that_was_killed_is_named_not_the_one_that_lost_it() -> None:
    ending = end_of({0: GLOO}, TORCHRUN)
    assert ending.outcome is Outcome.KILLED
    assert ending.reason.english.startswith("rank 1 (pid 20991 on localhost) was killed by SIGKILL")
    assert ending.look_at == "output.log"


def test_a_node_that_died_is_named_not_the_connection_that_was_lost_to_it() -> None:
    """What srun 22.05 printed when a node was killed in the middle of a run."""
    printed = (
        "0: failed: RuntimeError: [gloo/tcp/pair.cc:545] Read error [10.0.0.2]:38113: Connection reset by peer\n"
        "srun: error: Node failure on n1\n"
        "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\n"
        "0: slurmstepd-n0: error: *** STEP 3.0 ON n0 CANCELLED AT 2026-11-16T09:54:56 DUE TO NODE FAILURE ***\n"
    )
    ending = end_of({0: GLOO}, printed)
    assert (ending.outcome, ending.reason.english) == (Outcome.KILLED, "node n1 failed, as Slurm reports")
    assert why_retry(ending, printed) == "it was killed from outside"
    done = {"outcome": "ok", "reason": "20 steps done", "unix_s": 4.0}
    assert end_of({0: done, 1: done}, printed).outcome is Outcome.OK, "all steps were done"


def test_a_rank_that_was_killed_is_named_though_the_launcher_names_one_that_aborted() -> None:
    ending = end_of({}, PADDLE + OWN)
    assert ending.outcome is Outcome.KILLED
    assert ending.reason.english.startswith("rank 1 (pid 20991 on vm) was killed by SIGKILL")
    assert end_of({0: GLOO}, PADDLE + OWN).reason == ending.reason
    assert end_of({0: GLOO}, PADDLE + OWN, killed=True).outcome is Outcome.OUT_OF_MEMORY


def test_a_rank_that_aborts_because_another_failed_is_not_the_cause() -> None:
    own = {1: {"outcome": "failed", "reason": "KeyError: 1", "unix_s": 4.0}}
    assert end_of(own, PADDLE).reason.english == "rank 1: KeyError: 1"
    assert end_of({}, PADDLE).reason.english == "rank 0 was killed by SIGABRT", "nothing else is known"


def test_a_kill_by_the_kernel_for_memory_is_out_of_memory() -> None:
    ending = end_of({0: GLOO}, TORCHRUN, killed=True)
    assert ending.outcome is Outcome.OUT_OF_MEMORY
    assert "smaller --batch-size" in ending.reason.english
    aborted = TORCHRUN.replace("exitcode  : -9", "exitcode  : -6") + "terminate called ... 'std::bad_alloc'\n"
    assert end_of({0: GLOO}, aborted).outcome is Outcome.OUT_OF_MEMORY


def test_what_a_rank_says_of_itself_is_believed_first() -> None:
    assert end_of({0: {"outcome": "oom", "reason": "x"}}, TORCHRUN).outcome is Outcome.OUT_OF_MEMORY
    own = {1: {"outcome": "failed", "reason": "KeyError: 1", "unix_s": 4.0}, 0: GLOO}
    assert end_of(own, TORCHRUN).reason.english == "rank 1: KeyError: 1", "the first in time is the cause"
    killed = {"outcome": "killed", "unix_s": 1.0}
    asked = {0: {**killed, "reason": "as asked", "is_own": False}, 1: {**killed, "reason": "interrupted by SIGTERM"}}
    assert end_of(asked, "").reason.english == "rank 1: interrupted by SIGTERM"


def test_a_launcher_that_was_killed_is_named() -> None:
    ending = end_of({}, "", returncode=-9)
    assert (ending.outcome, ending.reason.english[:13]) == (Outcome.KILLED, "the launcher ")
    ending = end_of({1: {"outcome": "ok"}}, "", returncode=-9, has_launcher=False)
    assert ending.reason.english.startswith("rank 0 (pid 20990) was killed by SIGKILL")


def test_a_silent_rank_spoils_nothing_that_went_well() -> None:
    assert end_of({0: {"outcome": "ok", "reason": "done"}}, "", returncode=0) == Ending(
        outcome=Outcome.OK, reason=Message(code="", recorded="done"), look_at="rank0.jsonl"
    )


def test_a_rank_that_dies_after_its_last_step_keeps_the_result_and_is_named() -> None:
    done = {"outcome": "ok", "reason": "20 steps done", "unix_s": 4.0}
    ending = end_of({0: done, 1: done}, TORCHRUN)
    assert ending.outcome is Outcome.OK
    start = "all steps were done and recorded; then: rank 1 (pid 20991 on localhost) was killed by SIGKILL"
    assert ending.reason.english.startswith(start)
    assert end_of({0: done, 1: done}, "no launcher speaks").reason.english.endswith("then: exit code 1")
    assert end_of({0: done}, TORCHRUN).outcome is Outcome.KILLED, "rank 1 did not finish its steps"


@pytest.mark.parametrize(
    ("group", "file"),
    [
        ("0::/job\n", "sys/fs/cgroup/job/memory.events"),
        ("0::/../elsewhere\n", "sys/fs/cgroup/memory.events"),
        ("4:memory:/job\n1:cpu:/\n", "sys/fs/cgroup/memory/job/memory.oom_control"),
    ],
)
def test_the_kernel_counts_its_kills(group: str, file: str, tmp_path: Path) -> None:
    assert read_oom_kills(tmp_path) is None
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(group)
    assert read_oom_kills(tmp_path) is None
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("low 0\noom 4\noom_kill 3\noom_group_kill 0\n")
    assert read_oom_kills(tmp_path) == 3


def test_a_rank_that_gives_no_reason_still_ends_the_run() -> None:
    ends = {0: {"outcome": "failed"}, 1: {"outcome": "ok"}}
    ending = decide(run_ends=ends, returncode=1, ended_by=None)
    assert (ending.outcome, ending.reason.english) == (Outcome.FAILED, "rank 0: ")


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        ("RuntimeError: Read error [127.0.0.1]:19330: Connection reset by peer.", Outcome.KILLED, "rank 1 (pid 3052"),
        ("ValueError: bad image", Outcome.FAILED, "rank 0: ValueError: bad image"),
    ],
)
def test_a_rank_that_torchrun_found_dead_beside_one_that_lost_it_is_the_cause(
    error: str, outcome: Outcome, reason: str
) -> None:
    """The other one was not killed first: torchrun kills what outlives a failure."""
    ends = {0: {"kind": "run_end", "outcome": "failed", "reason": error, "unix_s": 1.0}}
    started = {rank: name_rank(rank=rank, pid=3051 + rank, host="vm") for rank in (0, 1)}
    inferred = infer_ends(
        ends, started=started, has_launcher=True, output=BOTH_DEAD_IN_ONE_LOOK, returncode=1, was_oom_killed=False
    )
    ending = decide(run_ends={**ends, **inferred}, returncode=1, ended_by=None)
    assert ending.outcome is outcome
    assert ending.reason.english.startswith(reason)
