"""Two real processes: what one of them meets, both know."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from two_ranks import on_two_ranks

from trainmark.worker.engine_torch_ranks import write_on_rank_0


def write_slowly(rank: int, control: Any, path: Path) -> bool:
    def write() -> None:
        assert rank == 0
        time.sleep(0.5)
        path.write_text("whole")

    write_on_rank_0(write, control)
    return path.exists()


def test_nobody_leaves_before_rank_0_has_written(tmp_path: Path) -> None:
    assert on_two_ranks(tmp_path, write_slowly, tmp_path / "checkpoint") == [True, True]


def write_in_vain(_: int, control: Any) -> str:
    def write() -> None:
        raise OSError("the checkpoint could not be written: No space left on device")

    try:
        write_on_rank_0(write, control)
    except OSError as error:
        return str(error)
    return "went on"


def test_what_rank_0_cannot_write_fails_on_all_ranks(tmp_path: Path) -> None:
    assert on_two_ranks(tmp_path, write_in_vain) == ["the checkpoint could not be written: No space left on device"] * 2
