"""A printed number is what its dialect declares it to be: of one step, a mean of a window or since the start, a median.

Each log here is printed by the rules of the public program from known step times, so the right answer is known.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import import_text

from trainmark.report.document import describe_runs
from trainmark.store.rows import RunRow

SLOWER = [0.1] * 500 + [0.2] * 500
"""Seconds of the steps of a run that becomes half as fast."""
_JITTER = random.Random(1)
STALLS = [(0.4 if step % 10 == 9 else 0.2) * _JITTER.uniform(0.99, 1.01) for step in range(2000)]
"""Every tenth step takes twice as long, which a median does not see."""


def lightning(steps: Sequence[float], *, every: int = 10) -> str:
    """tqdm without smoothing: the rate is the number of batches over the seconds since the epoch began."""
    bars, total_s = [], 0.0
    for number, seconds in enumerate(steps, start=1):
        total_s += seconds
        if number % every == 0:
            rate = number / total_s
            speed = f"{rate:5.2f}it/s" if rate >= 1 else f"{1 / rate:5.2f}s/it"
            clock = f"{int(total_s) // 60:02d}:{int(total_s) % 60:02d}"
            share = f"{100 * number // len(steps):3d}%|{'█' * (10 * number // len(steps)):<10}|"
            bars.append(f"Epoch 0: {share} {number}/{len(steps)} [{clock}<00:10, {speed}, v_num=3, train_loss=2.3]")
    return "\r".join(bars) + "\n"


def maskrcnn(steps: Sequence[float], *, begin_s: float = 36_000.0) -> str:
    """A median of the last 20 steps, and the mean of all in brackets."""
    lines, total_s = ["  IMS_PER_BATCH: 4\n"], 0.0
    for number, seconds in enumerate(steps, start=1):
        total_s += seconds
        if number % 20 == 0:
            usual, now = statistics.median_low(steps[number - 20 : number]), begin_s + total_s
            stamp = f"{int(now) // 3600:02d}:{int(now) // 60 % 60:02d}:{now % 60:09.6f}"
            lines.append(
                f"DLL 2024-01-01 {stamp} - Training Iteration: {number}  eta : 0:01:00  memory : 4911.2  "
                f"loss : 2.31 (3.7151)  time : {usual:.4f} ({total_s / number:.4f})  data : 0.0200 (0.0300) \n"
            )
    return "".join(lines)


def detectron2(steps: Sequence[float]) -> str:
    """The mean since the start, without its first three steps."""
    lines, total_s = ["Command: num_gpus=1, num_machines=1\n  IMS_PER_BATCH: 16\n"], 0.0
    for index, seconds in enumerate(steps):
        total_s += seconds if index >= 3 else 0.0
        if index % 20 == 19:
            lines.append(
                f"[01/31 10:00:00 d2.utils.events]:  eta: 1:00:00  iter: {index}  total_loss: 2.05  loss_cls: 0.58  "
                f"  time: {total_s / (index - 2):.4f}  last_time: {seconds:.4f}  data_time: 0.0123  "
                f"last_data_time: 0.0034   lr: 0.00039962  max_mem: 2723M\n"
            )
    return "".join(lines)


def torch_example(steps: Sequence[float], *, every: int = 10) -> str:
    """The value of one step, and the mean of the epoch so far."""
    lines = ["video number:16000\n"]
    for index, seconds in enumerate(steps):
        if index % every == 0:
            mean = sum(steps[: index + 1]) / (index + 1)
            lines.append(
                f"Epoch: [0][{index:4d}/{len(steps)}]\tTime  {seconds:.3f} ({mean:6.3f})\tData  0.001 ( 0.002)\t"
                f"Loss 6.9e+00 (7.0e+00)\n"
            )
    return "".join(lines)


def total_s(row: RunRow) -> float:
    return float(row.seconds.sum())


def rate_of(row: RunRow) -> float:
    return float(row.samples.sum() / row.seconds.sum())


GIVEN: dict[str, Any] = {"devices": 1, "batch_size_per_device": 1}


def test_a_mean_since_the_epoch_began_is_differenced(tmp_path: Path) -> None:
    row = import_text(tmp_path, lightning(SLOWER), **GIVEN)
    assert (row.dialect, row.log["meaning"], row.log["basis"]) == ("lightning", "since-epoch", "differences")
    assert total_s(row) == pytest.approx(sum(SLOWER), rel=0.01)
    late = row.steps > 550
    assert row.samples[late].sum() / row.seconds[late].sum() == pytest.approx(5.0, rel=0.02)
    assert row.num_records == 100


def test_a_median_is_not_turned_into_a_throughput(tmp_path: Path) -> None:
    row = import_text(tmp_path, maskrcnn(STALLS), devices=1)
    assert (row.log["meaning"], row.log["basis"]) == ("median", "differences")
    assert rate_of(row) == pytest.approx(4 * len(STALLS) / sum(STALLS), rel=0.001)
    assert float(np.median(row.printed_rates)) == pytest.approx(4 / 0.2, rel=0.01), (
        "older reports used the printed medians"
    )
    (result,) = describe_runs([row])
    low, high = result["throughput"]["ci95"]
    assert low <= 4 / 0.22 <= high
    assert not [w for w in result["warnings"] if w["code"] == "median-not-mean"]


def test_a_mean_since_the_run_began_is_differenced(tmp_path: Path) -> None:
    row = import_text(tmp_path, detectron2(SLOWER))
    assert (row.log["meaning"], row.log["basis"], row.num_records) == ("since-run", "differences", 50)
    late = row.steps > 600
    assert row.samples[late].sum() / row.seconds[late].sum() == pytest.approx(16 / 0.2, rel=0.03)


def test_a_resumed_run_counts_on_while_its_mean_begins_anew(tmp_path: Path) -> None:
    text = detectron2([0.2] * 1000).replace("iter: ", "iter: 50")
    row = import_text(tmp_path, text)
    assert rate_of(row) == pytest.approx(16 / 0.2, rel=0.02)


def test_one_step_in_ten_says_less_than_the_mean_beside_it(tmp_path: Path) -> None:
    """Every tenth step is slow and never printed."""
    row = import_text(tmp_path, torch_example(STALLS), **GIVEN)
    assert (row.log["meaning"], row.log["basis"]) == ("step", "differences")
    assert rate_of(row) == pytest.approx(1 / 0.22, rel=0.01)
    assert float(np.median(row.printed_rates)) == pytest.approx(5.0, rel=0.01)


def test_steps_that_are_all_printed_are_taken_as_they_are(tmp_path: Path) -> None:
    row = import_text(tmp_path, torch_example([0.2] * 60, every=1), **GIVEN)
    assert (row.log["basis"], len(row.seconds)) == ("printed", 60)


PATTERN = """
name = "ours"
anchor = "it "
record = 'it (?P<step>[0-9]+) (?P<seconds>[0-9.]+) s'
meaning = "{meaning}"
"""


@pytest.mark.parametrize(("every", "codes"), [(1, []), (10, ["sampled-steps"])])
def test_one_step_in_ten_without_a_total_is_a_warning(tmp_path: Path, every: int, codes: list[str]) -> None:
    lines = [f"iter {step}: loss 2.1, time 45.12ms, mfu 3.45%" for step in range(0, 400 * every, every)]
    row = import_text(tmp_path, "\n".join(["tokens per iteration will be: 16,384", *lines]) + "\n")
    (result,) = describe_runs([row])
    found = [warning for warning in result["warnings"] if warning["code"] == "sampled-steps"]
    assert [warning["code"] for warning in found] == codes
    assert all("one step in 10 " in warning["message"] for warning in found)


@pytest.mark.parametrize(("validation", "codes"), [("", []), (" - val_loss: 0.3000", ["includes-validation"])])
def test_an_epoch_of_keras_that_includes_its_validation_says_so(
    tmp_path: Path, validation: str, codes: list[str]
) -> None:
    epochs = [f"Epoch {n}/9\n469/469 - 3s - 6ms/step - loss: 0.2{n}00{validation}\n" for n in range(1, 10)]
    (result,) = describe_runs([import_text(tmp_path, "".join(epochs))])
    assert [warning["code"] for warning in result["warnings"] if warning["code"] == "includes-validation"] == codes


def own_log(tmp_path: Path, meaning: str, *, has_times: bool) -> RunRow:
    pattern = tmp_path / "ours.toml"
    pattern.write_text(PATTERN.format(meaning=meaning))
    lines, now = [], 0.0
    for number, seconds in enumerate(STALLS, start=1):
        now += seconds
        if number % 20 == 0:
            stamp = f"2024-01-01 10:{int(now) // 60:02d}:{int(now) % 60:02d} " if has_times else ""
            lines.append(f"{stamp}it {number} 0.200 s\n")
    return import_text(tmp_path, "".join(lines), pattern=pattern, **GIVEN)


@pytest.mark.parametrize("meaning", ["median", "smoothed"])
def test_time_stamps_count_before_a_number_that_is_no_mean(tmp_path: Path, meaning: str) -> None:
    row = own_log(tmp_path, meaning, has_times=True)
    assert row.log["basis"] == "clock"
    assert rate_of(row) == pytest.approx(1 / 0.22, rel=0.01)


@pytest.mark.parametrize("meaning", ["median", "smoothed"])
def test_without_time_stamps_there_is_a_warning(tmp_path: Path, meaning: str) -> None:
    row = own_log(tmp_path, meaning, has_times=False)
    assert row.log["basis"] == "printed"
    assert [warning["code"] for warning in row.warnings] == [f"{meaning}-not-mean"]


def test_a_window_mean_is_taken_as_it_is(tmp_path: Path) -> None:
    row = own_log(tmp_path, "window", has_times=False)
    assert (row.log["basis"], row.seconds[0], row.warnings) == ("printed", 4.0, ())


def test_the_last_printed_digit_is_kept_for_the_interval(tmp_path: Path) -> None:
    row = own_log(tmp_path, "window", has_times=False)
    assert row.rounding == pytest.approx(0.0005 * 20), "half of 0.001 s in each of 20 steps"


def test_the_digits_of_a_running_total_count_once(tmp_path: Path) -> None:
    row = import_text(tmp_path, maskrcnn(STALLS), devices=1)
    assert row.rounding.sum() == pytest.approx(0.00005 * len(STALLS), rel=0.01)


def test_printed_digits_widen_the_interval(tmp_path: Path) -> None:
    """0.20 s may be anything from 0.195 s to 0.205 s, however often it is printed."""
    pattern = tmp_path / "ours.toml"
    pattern.write_text(PATTERN.format(meaning="step"))
    text = "".join(f"it {number} {0.2 + 0.01 * (number % 20 == 0):.2f} s\n" for number in range(1, 201))
    row = import_text(tmp_path, text, pattern=pattern, **GIVEN)
    throughput = describe_runs([row])[0]["throughput"]
    low, high = throughput["ci95"]
    assert low < 1 / 0.2045
    assert high > 1 / 0.1965


TITAN = "[rank0]:[titan] 2025-01-01 10:00:{s:02d},123 - root - INFO - {text}\n"


def test_validation_of_torchtitan_is_not_training(tmp_path: Path) -> None:
    step = (
        "step: {n:2}  loss:  8.02123  grad_norm:  1.2345  memory: 25.30GiB(32.00%)  tps: {tps}  tflops: 45.20  mfu: 1%"
    )
    text = TITAN.format(s=0, text="Building device mesh with parallelism: dp_shard=8")
    for number in range(1, 9):
        text += TITAN.format(s=number, text=step.format(n=10 * number, tps="6,000"))
        if number % 4 == 0:
            validation = f"validate step: {10 * number:2}  loss:  7.5{number}  memory: 20.10GiB(25.00%)  tps: 19,000"
            text += TITAN.format(s=number, text=validation)
    row = import_text(tmp_path, text, devices=8)
    assert (row.dialect, row.num_records) == ("torchtitan", 8)
    assert rate_of(row) == pytest.approx(6000 * 8)
    assert [(e["step"], e["metric"], e["value"]) for e in row.evals] == [(40, "val_loss", 7.54), (80, "val_loss", 7.58)]
