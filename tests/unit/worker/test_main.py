"""What the measured process says of its own end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from making import make_workload_cell
from trainmark.messages.endings import controller_stopped, interrupted
from trainmark.messages.training import precise_enough
from trainmark.runfolder.document import CellRecord, RunDocument
from trainmark.runfolder.files import ENVIRONMENT_FILE, STOP_FILE, read_json, write_json
from trainmark.runfolder.records import Outcome
from trainmark.worker.main import Worker
from trainmark.worker.training_code import training_code


def worker_of(folder: Path, *, limit_bytes: int | None = None, is_memory: bool = False) -> Any:
    worker: Any = object.__new__(Worker)
    worker._folder, worker._signals = folder, SimpleNamespace(reason=None)
    worker._run = RunDocument(cell=CellRecord(), memory_limit_bytes=limit_bytes)
    worker._load_package = lambda: SimpleNamespace(is_out_of_memory=lambda _: is_memory)
    return worker


def test_the_controller_says_why_it_asks_to_stop(tmp_path: Path) -> None:
    worker = worker_of(tmp_path)
    assert worker._reason_to_stop() is None
    (tmp_path / STOP_FILE).touch()
    assert worker._reason_to_stop() == (Outcome.OK, controller_stopped())
    reason = precise_enough(half_width=0.004, target=0.01)
    write_json(tmp_path / STOP_FILE, reason.to_json())
    assert worker._reason_to_stop() == (Outcome.OK, reason)
    assert worker._reason_to_stop()[1].chinese == "精度已够：±0.40%，目标 ±1.00%"
    worker._signals.reason = interrupted(signal="SIGTERM")
    assert worker._reason_to_stop() == (Outcome.KILLED, interrupted(signal="SIGTERM"))


@pytest.mark.parametrize(
    ("is_memory", "limit_bytes", "outcome", "english"),
    [
        (False, None, Outcome.FAILED, "RuntimeError: no luck"),
        (True, None, Outcome.OUT_OF_MEMORY, "RuntimeError: no luck; out of memory: use a smaller --batch-size"),
        (True, 2 << 30, Outcome.OUT_OF_MEMORY, "RuntimeError: no luck; out of memory within the 2.0 GiB that"),
    ],
)
def test_an_exception_is_the_reason(
    tmp_path: Path, is_memory: bool, limit_bytes: int | None, outcome: Outcome, english: str
) -> None:
    end = worker_of(tmp_path, limit_bytes=limit_bytes, is_memory=is_memory).explain(RuntimeError("no\n    luck"))
    assert end.outcome is outcome
    assert end.reason.english.startswith(english)


def test_the_environment_tells_the_code_that_trains(tmp_path: Path) -> None:
    worker = worker_of(tmp_path)
    worker._rank, worker._gpu_index, worker._cell = 0, None, make_workload_cell(workload="tsm", framework="paddle")
    worker._write_environment({"framework": "paddle 3.3.1"})
    found = read_json(tmp_path / ENVIRONMENT_FILE) or {}
    assert found["training_code"] == training_code("tsm", "paddle")
    assert found["framework"] == "paddle 3.3.1"
