"""Observed files of several processes as the steps of one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainmark.controller import command_facts
from trainmark.logs.live import LiveLog
from trainmark.logs.record import Facts
from trainmark.logs.registry import load_dialects
from trainmark.store import observed_steps
from trainmark.store.observed_steps import read_observed


def write(folder: Path, rank: int, steps: list[dict[str, Any]], *, signal: str = "optimizer", end: str = "") -> None:
    time_s = 1000.0
    lines = [{"kind": "run_start", "signal": signal, "framework": "torch"}]
    for number, step in enumerate(steps, start=1):
        time_s += step.get("seconds", 0.1)
        lines.append({"kind": "step", "step": number, "seconds": 0.1, "unix_s": time_s, **step})
    text = "".join(json.dumps(line) + "\n" for line in lines) + end
    with (folder / f"rank{rank}.observed.jsonl").open("a") as file:
        file.write(text)


def test_processes_add_up_and_the_first_has_the_clock(tmp_path: Path) -> None:
    write(tmp_path, 0, [{"samples": 8}] * 5)
    write(tmp_path, 1, [{"samples": 4, "seconds": 0.7}] * 6, end='{"kind": "st')
    found = read_observed(tmp_path)
    assert found is not None
    assert found.counts == (5, 6)
    assert found.samples.tolist() == [12] * 5
    assert np.allclose(found.seconds, 0.1)
    assert (found.batch_size, found.framework) == (8, "torch")


def test_steps_that_are_not_read_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_steps, "_MOST_STEPS", 4)
    write(tmp_path, 0, [{"samples": 8}] * 10)
    found = read_observed(tmp_path)
    assert found is not None
    assert (len(found.seconds), found.num_left_out) == (4, 6)


def test_a_step_beside_an_evaluation_of_any_process_is_left_out(tmp_path: Path) -> None:
    pause = {"samples": 8, "seconds": 3.1, "beside": ["eval", "restart"]}
    write(tmp_path, 0, [{"samples": 8}] * 4 + [pause] + [{"samples": 8}] * 4)
    write(tmp_path, 1, [{"samples": 8}] * 7 + [{"samples": 8, "beside": ["checkpoint"]}, {"samples": 8}])
    found = read_observed(tmp_path)
    assert found is not None
    assert found.steps.tolist() == [1, 2, 3, 4, 6, 7, 9]
    assert found.pauses["eval"] == 3.0
    assert np.allclose(found.wall_s, 0.1)


def test_a_script_that_restarts_its_data_at_every_step_keeps_its_steps(tmp_path: Path) -> None:
    write(tmp_path, 0, [{"samples": 8, "beside": ["restart"]}] * 9 + [{"samples": 8, "beside": ["eval", "restart"]}])
    found = read_observed(tmp_path)
    assert found is not None
    assert len(found.seconds) == 9


def test_a_loader_that_fetches_ahead_has_the_batch_of_each_step(tmp_path: Path) -> None:
    """As timm does on CUDA: two batches before the first step of an epoch, none before the last, which is smaller."""
    first = [{"samples": 8}] * 6 + [{"samples": 5}, {}]
    epoch = [{"samples": 16, "batches": 2, "beside": ["eval", "restart"]}, *first[1:]]
    write(tmp_path, 0, first + epoch + epoch[:4])
    found = read_observed(tmp_path)
    assert found is not None
    of_epoch = [8.0] * 6 + [5.0]
    assert found.samples.tolist() == [8.0, *of_epoch, *of_epoch, *[8.0] * 3]
    assert found.batch_size == 8


def test_batches_that_fetching_ahead_does_not_explain_stay(tmp_path: Path) -> None:
    restart = {"samples": 16, "batches": 2, "beside": ["restart"]}
    write(tmp_path, 0, ([restart] + [{"samples": 8}] * 8) * 2)
    found = read_observed(tmp_path)
    assert found is not None
    assert found.samples.tolist() == [8.0] * 16


def test_backward_passes_count_only_without_an_optimizer(tmp_path: Path) -> None:
    write(tmp_path, 0, [{"samples": 8}] * 5, signal="backward")
    found = read_observed(tmp_path)
    assert found is not None
    assert (found.signal, len(found.seconds)) == ("backward", 5)
    write(tmp_path, 0, [{"samples": 8}] * 3)
    found = read_observed(tmp_path)
    assert found is not None
    assert (found.signal, len(found.seconds)) == ("optimizer", 3)


def test_nothing_observed_and_anything_written(tmp_path: Path) -> None:
    assert read_observed(tmp_path) is None
    (tmp_path / "rank0.observed.jsonl").write_bytes(
        b'\x00\xff\n{"kind": "step"}\n{"kind": "step", "seconds": -1}\n[]\n'
    )
    assert read_observed(tmp_path) is None


def test_steps_that_were_only_started_are_a_warning(tmp_path: Path) -> None:
    write(tmp_path, 0, [{"samples": 8}] * 20 + [{"samples": 8, "dispatched": True}] * 3)
    observed = read_observed(tmp_path)
    assert observed is not None
    assert observed.num_dispatched == 3
    choice = command_facts._choose(tmp_path, LiveLog([], Facts()), observed)
    assert choice.witness == "observer"
    assert [warning.code for warning in choice.warnings] == ["dispatch-times"]


def test_samples_have_the_name_of_the_log_also_if_it_tells_no_batch_size(tmp_path: Path) -> None:
    write(tmp_path, 0, [{"samples": 8}] * 20)
    log = LiveLog(load_dialects(), Facts())
    for step in range(1, 5):
        log.feed(
            f"Epoch: [0][{step}/90]\tTime  0.120 ( 0.102)\tData  0.000 ( 0.005)\tLoss 1.75 (1.80)\n".encode(), None
        )
    assert (log.dialect, log.unit) == ("torch-example", "iterations")
    assert command_facts._choose(tmp_path, log, read_observed(tmp_path)).unit == "images"
