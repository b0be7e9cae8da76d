"""Processes that end together, and the line that says which of them died."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from trainmark.launch.endings import find_deaths
from trainmark.launch.spawn_ranks import _find_cause

ONE_DIES = "import os, signal, time\nif os.environ['RANK'] == '{rank}': {death}\ntime.sleep(60)"


@pytest.mark.parametrize(
    ("rank", "death", "code"),
    [(0, "os.kill(os.getpid(), signal.SIGKILL)", -9), (1, "os._exit(3)", 3), (1, "os.abort()", -6)],
)
def test_a_rank_that_dies_ends_the_others_and_is_named(rank: int, death: str, code: int) -> None:
    words = [sys.executable, "-c", ONE_DIES.format(rank=rank, death=death)]
    argv = [sys.executable, "-m", "trainmark.launch.spawn_ranks", "--processes", "2", "--", *words]
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert done.returncode == (128 - code if code < 0 else code)
    (found,) = find_deaths(done.stderr)
    assert (found.rank, found.code, found.is_first) == (rank, code, True)


def test_paddles_ranks_say_how_they_died() -> None:
    words = [sys.executable, "-c", ONE_DIES.format(rank=1, death="os.kill(os.getpid(), signal.SIGKILL)")]
    argv = [sys.executable, "-m", "trainmark.launch.rank_command", "--launcher=paddle", *words]
    environment = {**os.environ, "PADDLE_TRAINER_ID": "1"}
    done = subprocess.run(argv, env=environment, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    (found,) = find_deaths(done.stderr)
    assert (done.returncode, found.rank, found.code, found.is_first) == (-9, 1, -9, False)


def test_a_sigkill_is_the_cause_of_other_deaths_in_the_same_moment() -> None:
    assert _find_cause([-6, None, -9]) == 2
    assert _find_cause([None, 1, -6]) == 1
