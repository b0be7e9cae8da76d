from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainmark import rank_environment


@pytest.mark.parametrize(
    ("launcher", "expected"),
    [
        (
            {
                "OMPI_COMM_WORLD_RANK": "3",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
        ),
        (
            {
                "SLURM_PROCID": "5",
                "SLURM_NTASKS": "8",
                "SLURM_LOCALID": "1",
                "SLURM_STEP_NODELIST": "gpu[03-07,12]",
                "SLURM_JOB_NODELIST": "gpu[01-12]",
            },
            {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "gpu03"},
        ),
        (
            {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2", "PADDLE_MASTER": "10.0.0.1:6000"},
            {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "6000"},
        ),
        ({"RANK": "1", "SLURM_PROCID": "0"}, {"RANK": "0"}),
        ({}, {}),
    ],
)
def test_translate(launcher: dict[str, str], expected: dict[str, str]) -> None:
    assert rank_environment.translate(launcher) == expected


def test_what_the_controller_gave_stays() -> None:
    assert rank_environment.translate({"SLURM_STEP_NODELIST": "a,b", "MASTER_ADDR": "10.0.0.9"}) == {}
    assert rank_environment.translate({"SLURM_STEP_NODELIST": "a,b", "MASTER_ADDR": ""}) == {"MASTER_ADDR": "a"}


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("gpu[3-7]", "gpu3"),
        ("r[08,12]-ib,x", "r08-ib"),
        ("a-b[1-2]", "a-b1"),
        ("rack[1-2]node[01-04],x", "rack1node01"),
    ],
)
def test_first_host(nodes: str, first: str) -> None:
    assert rank_environment.first_host(nodes) == first


SHOW = "import os, sys; print(os.environ['RANK'], os.environ.get('TRAINMARK_LEASE'), *sys.argv[1:]); sys.exit(5)"


@pytest.mark.parametrize("has_lease", [False, True])
def test_the_command_runs_with_its_words_and_its_exit_code(tmp_path: Path, *, has_lease: bool) -> None:
    lease = {"TRAINMARK_LEASE": str(tmp_path / "lease")} if has_lease else {}
    environment = {**os.environ, "SLURM_PROCID": "7", **lease}
    argv = [sys.executable, "-m", "trainmark.rank_environment", sys.executable, "-c", SHOW, "a b", "--c"]
    process = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True)
    for number in range(600):  # a living controller
        (tmp_path / "lease").write_text(str(number))
        if process.poll() is not None:
            break
        time.sleep(0.1)
    assert process.stdout is not None
    assert (process.stdout.read(), process.returncode) == ("7 None a b --c\n", 5)
    process.stdout.close()


def test_a_lease_that_stands_still_ends_the_command(tmp_path: Path) -> None:
    lease = tmp_path / "lease"
    lease.write_text("1")
    shorter = "rank_environment.LEASE_S = 1.5; rank_environment._POLL_S = 0.1"
    code = f"import sys; from trainmark import rank_environment; {shorter}; sys.exit(rank_environment.main(sys.argv))"
    argv = [sys.executable, "-c", code, "sleep", "60"]
    process = subprocess.Popen(argv, env={**os.environ, "TRAINMARK_LEASE": str(lease)})
    for number in range(20):  # alive while the file changes, for longer than the lease
        time.sleep(0.1)
        lease.write_text(str(number))
        assert process.poll() is None
    assert process.wait(timeout=20) == -9, "as the command itself, so that the launcher tells of it"


def test_nothing_begins_for_a_controller_that_is_gone(tmp_path: Path) -> None:
    """A job that waited in a queue for hours."""
    lease, began = tmp_path / "lease", tmp_path / "began"
    lease.write_text("1")
    shorter = "rank_environment.LEASE_S = 0.5; rank_environment._POLL_S = 0.1"
    code = f"import sys; from trainmark import rank_environment; {shorter}; sys.exit(rank_environment.main(sys.argv))"
    argv = [sys.executable, "-c", code, "touch", str(began)]
    environment = {**os.environ, "TRAINMARK_LEASE": str(lease)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, began.exists()) == (1, False)
    assert "nothing is begun" in done.stderr


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "trainmark.rank_environment", str(tmp_path / "nothing")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 127
    assert "No such file" in done.stderr
