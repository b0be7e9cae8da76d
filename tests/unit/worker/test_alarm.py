from __future__ import annotations

import time
from pathlib import Path

import pytest

from trainmark.silence_limit import SilenceLimit
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
