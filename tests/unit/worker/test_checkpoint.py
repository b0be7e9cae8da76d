"""A checkpoint that cannot be written says why, and leaves the last good one."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from trainmark.worker.checkpoint import remove_unfinished, write_checkpoint


def write(path: Path, weight: Tensor) -> None:
    write_checkpoint(path, lambda file: torch.save({"weight": weight}, file))


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Files of at most 64 KiB: torch sees the same as on a full disk, a write that is refused halfway."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_named_and_spares_the_last_checkpoint(tmp_path: Path, small_disk: None) -> None:
    path = tmp_path / "checkpoint"
    write(path, torch.ones(1))
    with pytest.raises(OSError, match=r"^the checkpoint could not be written: File too large$"):
        write(path, torch.zeros(1 << 20))
    assert torch.load(path, weights_only=True)["weight"] == torch.ones(1)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]


def test_what_a_killed_process_left_beside_a_checkpoint_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write(path, torch.ones(1))
    (tmp_path / ".checkpoint.4711").write_bytes(b"half of it")
    (tmp_path / "rank0.jsonl").write_text("{}\n")
    remove_unfinished(path)
    assert {file.name for file in tmp_path.iterdir()} == {"checkpoint", "rank0.jsonl"}
