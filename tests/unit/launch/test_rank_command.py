from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SHOW = "import os, sys; print(os.environ['RANK'], os.environ.get('TRAINMARK_LEASE'), *sys.argv[1:]); sys.exit(5)"


@pytest.mark.parametrize("has_lease", [False, True])
def test_the_command_runs_with_its_words_and_its_exit_code(tmp_path: Path, *, has_lease: bool) -> None:
    lease = {"TRAINMARK_LEASE": str(tmp_path / "lease")} if has_lease else {}
    environment = {**os.environ, "SLURM_PROCID": "7", **lease}
    argv = [sys.executable, "-m", "trainmark.launch.rank_command", sys.executable, "-c", SHOW, "a b", "--c"]
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
    shorter = "rank_command.LEASE_S = 1.5; rank_command._POLL_S = 0.1"
    code = f"import sys; from trainmark.launch import rank_command; {shorter}; sys.exit(rank_command.main(sys.argv))"
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
    shorter = "rank_command.LEASE_S = 0.5; rank_command._POLL_S = 0.1"
    code = f"import sys; from trainmark.launch import rank_command; {shorter}; sys.exit(rank_command.main(sys.argv))"
    argv = [sys.executable, "-c", code, "touch", str(began)]
    environment = {**os.environ, "TRAINMARK_LEASE": str(lease)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, began.exists()) == (1, False)
    assert "nothing is started" in done.stderr


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "trainmark.launch.rank_command", str(tmp_path / "nothing")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 127
    assert "No such file" in done.stderr
