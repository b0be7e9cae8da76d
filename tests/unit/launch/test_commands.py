from __future__ import annotations

from pathlib import Path

import pytest

from trainmark.errors import InputError
from trainmark.launch import local, torchrun
from trainmark.launch.job import Job
from trainmark.launch.outcome import decide, describe_exit, judge_command
from trainmark.launch.registry import choose
from trainmark.records import Outcome

JOB = Job(run_id="r1", folder=Path("/runs/r1"), python="/py", num_processes=4, num_cores=8)


def test_local_command() -> None:
    command = local.build_command(JOB)
    assert command.argv == ("/py", "-m", "trainmark.worker.main", "/runs/r1")
    assert command.environment == {"TRAINMARK_RUN": "r1", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "2"}


def test_torchrun_command() -> None:
    assert torchrun.build_command(JOB).argv == (
        "/py", "-m", "torch.distributed.run", "--standalone", "--nnodes=1", "--nproc-per-node=4",
        "--no-python", "/py", "-m", "trainmark.worker.main", "/runs/r1",
    )  # fmt: skip


def test_threads_are_left_alone_on_a_gpu() -> None:
    job = Job(run_id="r", folder=Path("f"), python="p", num_processes=1, num_cores=0)
    assert "OMP_NUM_THREADS" not in local.build_command(job).environment


def test_the_launcher_follows_the_number_of_processes() -> None:
    assert choose("auto", num_processes=1) == "local"
    assert choose("auto", num_processes=2) == "torchrun"
    assert choose("torchrun", num_processes=1) == "torchrun"
    with pytest.raises(InputError, match="does not fit"):
        choose("local", num_processes=2)


def outcome_of(*ends: dict[str, str], returncode: int | None = 1, ended_by: Outcome | None = None) -> Outcome:
    return decide(run_ends=dict(enumerate(ends)), returncode=returncode, ended_by=ended_by, why="no step").outcome


def test_outcomes() -> None:
    ok = {"outcome": "ok", "reason": "20 steps done"}
    assert outcome_of(ok, returncode=0) is Outcome.OK
    assert outcome_of(ok) is Outcome.FAILED
    assert outcome_of({"outcome": "oom"}) is Outcome.OUT_OF_MEMORY
    assert outcome_of({"outcome": "nan"}) is Outcome.NAN
    assert outcome_of(returncode=-9) is Outcome.KILLED
    assert outcome_of() is Outcome.FAILED
    assert outcome_of(returncode=0) is Outcome.FAILED
    assert outcome_of(ok, returncode=-15, ended_by=Outcome.HANG) is Outcome.HANG
    assert outcome_of({"outcome": "invented"}) is Outcome.FAILED
    assert outcome_of(ok, returncode=None) is Outcome.HANG


def test_the_rank_that_failed_is_believed() -> None:
    killed, ok = {"outcome": "killed"}, {"outcome": "ok"}
    assert outcome_of(killed, {"outcome": "oom"}) is Outcome.OUT_OF_MEMORY
    assert outcome_of(ok, {"outcome": "nan"}) is Outcome.NAN
    ending = decide(run_ends={3: {"outcome": "oom"}}, returncode=1, ended_by=None, why="")
    assert (ending.outcome, ending.look_at) == (Outcome.OUT_OF_MEMORY, "rank3.jsonl")


def test_a_kill_is_named() -> None:
    assert "lack of memory" in describe_exit(-9)
    assert describe_exit(-15) == "SIGTERM"
    assert describe_exit(3) == "exit code 3"


def test_a_command_runs_as_it_is_and_knows_where_to_mark() -> None:
    job = Job(
        run_id="r1", folder=Path("/runs/r1"), python="/py", num_processes=2, num_cores=0, argv=("sh", "train.sh", "a b")
    )
    command = local.build_command(job)
    assert command.argv == ("sh", "train.sh", "a b")
    assert command.environment == {"TRAINMARK_RUN": "r1", "PYTHONUNBUFFERED": "1", "TRAINMARK_MARK": "/runs/r1"}
    assert torchrun.build_command(job).argv[-4:] == ("--no-python", "sh", "train.sh", "a b")


@pytest.mark.parametrize(
    ("returncode", "output", "outcome"),
    [
        (0, b"done", Outcome.OK),
        (0, b"Loss: 0.31", Outcome.OK),
        (0, b"loss: nan, lr 0.1\nloss: 0.2", Outcome.OK),
        (0, b"loss: 0.2\n| Loss NaN (nan) |", Outcome.NAN),
        (0, b"{'loss': inf}", Outcome.NAN),
        (3, b"Traceback\nKeyError: 1", Outcome.FAILED),
        (1, b"torch.OutOfMemoryError: CUDA out of memory.", Outcome.OUT_OF_MEMORY),
        (-9, b"", Outcome.KILLED),
    ],
)
def test_how_a_command_ended(returncode: int, output: bytes, outcome: Outcome) -> None:
    end = judge_command(returncode=returncode, last_output=output, bad_loss=None)
    ending = decide(run_ends={0: end}, returncode=returncode, ended_by=None, why="")
    assert (ending.outcome, ending.look_at) == (outcome, "output.log")
