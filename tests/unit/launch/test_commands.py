from __future__ import annotations

from pathlib import Path

from trainmark.launch import local, torchrun
from trainmark.launch.job import Job
from trainmark.launch.outcome import decide, describe_exit
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
        "-m", "trainmark.worker.main", "/runs/r1",
    )  # fmt: skip


def test_threads_are_left_alone_on_a_gpu() -> None:
    job = Job(run_id="r", folder=Path("f"), python="p", num_processes=1, num_cores=0)
    assert "OMP_NUM_THREADS" not in local.build_command(job).environment


def test_the_launcher_follows_the_number_of_processes() -> None:
    assert choose("auto", num_processes=1) == "local"
    assert choose("auto", num_processes=2) == "torchrun"
    assert choose("torchrun", num_processes=1) == "torchrun"


def test_outcomes() -> None:
    ok = {"outcome": "ok", "reason": "20 steps done"}
    assert decide(run_end=ok, returncode=0, ended_by=None, why="").outcome is Outcome.OK
    assert decide(run_end=ok, returncode=1, ended_by=None, why="").outcome is Outcome.FAILED
    assert decide(run_end={"outcome": "oom"}, returncode=1, ended_by=None, why="").outcome is Outcome.OUT_OF_MEMORY
    assert decide(run_end={"outcome": "nan"}, returncode=1, ended_by=None, why="").outcome is Outcome.NAN
    assert decide(run_end=None, returncode=-9, ended_by=None, why="").outcome is Outcome.KILLED
    assert decide(run_end=None, returncode=1, ended_by=None, why="").outcome is Outcome.FAILED
    assert decide(run_end=None, returncode=0, ended_by=None, why="").outcome is Outcome.FAILED
    assert decide(run_end=ok, returncode=-15, ended_by=Outcome.HANG, why="no step").outcome is Outcome.HANG
    assert decide(run_end={"outcome": "invented"}, returncode=1, ended_by=None, why="").outcome is Outcome.FAILED


def test_a_kill_is_named() -> None:
    assert "lack of memory" in describe_exit(-9)
    assert describe_exit(-15) == "SIGTERM"
    assert describe_exit(3) == "exit code 3"
