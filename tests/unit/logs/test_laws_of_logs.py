"""The laws of one run, in imported logs: the same as for own runs, with what only a log can have."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import import_text

from trainmark.analyse.laws import judge, marks_of
from trainmark.store.rows import RunRow


def laws(*rows: RunRow) -> list[str]:
    judge(rows)
    return [mark.law for row in rows for mark in marks_of(row)]


def ngc(
    *, slower: float, num: int = 80, head: str = "", loss: float = 7.0, devices: int = 8, rate: float = 6000
) -> str:
    """NVIDIA's ResNet-50: only rates, with stamps that many times farther apart than the rates claim."""
    text = (
        f"DLL 2024-01-01 10:00:00.1 - PARAMETER arch : resnet50  batch_size : 256  amp : True  world_size : {devices}\n"
    )
    text += head
    elapsed_s = 0.0
    for step in range(1, 81):
        own = rate + step % 7
        elapsed_s += slower * 256 * 8 / own
        time = f"10:{int(elapsed_s // 60):02d}:{elapsed_s % 60:06.3f}"
        text += (
            f"DLL 2024-01-01 {time} - Epoch: 0 Iteration: {step}  train.loss : {loss}  train.total_ips : {own} img/s\n"
        )
    return text


def paddle(*, slower: float, miou: float | None = None) -> str:
    """PaddleSeg: seconds of a step and a rate, with stamps in whole seconds."""
    text = "GPUs used: 2\n"
    elapsed_s = 0.0
    for step in range(10, 1010, 10):
        cost = 0.4 + (step % 70) / 1e4
        elapsed_s += slower * 10 * cost
        time = f"{10 + int(elapsed_s // 3600):02d}:{int(elapsed_s // 60) % 60:02d}:{int(elapsed_s % 60):02d}"
        text += f"2024-01-01 {time} [INFO]\t[TRAIN] epoch: 1, iter: {step}/1000, loss: 0.5, lr: 0.1, "
        text += f"batch_cost: {cost:.4f}, reader_cost: 0.0001, ips: {8 / cost:.4f} samples/sec\n"
    if miou is not None:
        text += f"2024-01-01 {time} [INFO]\t[EVAL] #Images: 500 mIoU: {miou:.4f} Acc: 0.9 Kappa: 0.9\n"
    return text


@pytest.mark.parametrize(("slower", "found"), [(3.3, ["faster-than-clock"]), (1.1, []), (4.0, [])])
def test_rates_against_the_stamps(slower: float, found: list[str], tmp_path: Path) -> None:
    """Exactly four times is an accumulated batch: a step is four of the batches that the rate counts."""
    assert laws(import_text(tmp_path, ngc(slower=slower))) == found


@pytest.mark.parametrize(("slower", "found"), [(4.0, ["faster-than-clock"]), (1.1, [])])
def test_seconds_against_the_stamps(slower: float, found: list[str], tmp_path: Path) -> None:
    assert laws(import_text(tmp_path, paddle(slower=slower))) == found


def test_too_short_for_a_clock_of_whole_seconds(tmp_path: Path) -> None:
    short = "\n".join(paddle(slower=4.0).splitlines()[:3])
    assert laws(import_text(tmp_path, short)) == []


@pytest.mark.parametrize(("miou", "found"), [(100.5, ["impossible-metric"]), (76.2, []), (0.762, [])])
def test_a_metric_in_percent(miou: float, found: list[str], tmp_path: Path) -> None:
    assert laws(import_text(tmp_path, paddle(slower=1.0, miou=miou))) == found


@pytest.mark.parametrize(("rate", "found"), [(47_000.0, ["above-peak"]), (30_000.0, [])])
def test_more_than_a_v100_can_do(rate: float, found: list[str], tmp_path: Path) -> None:
    """5,094 images/s are its peak of 125 TFLOP/s."""
    log = ngc(slower=1.0, rate=rate, head="GPU 0: Tesla V100-SXM2-32GB\n")
    assert laws(import_text(tmp_path, log)) == found


@pytest.mark.parametrize(("loss", "found"), [(2.1, ["odd-first-loss"]), (7.4, [])])
def test_the_first_loss(loss: float, found: list[str], tmp_path: Path) -> None:
    assert laws(import_text(tmp_path, ngc(slower=1.0, loss=loss))) == found


def test_the_same_log_under_another_name(tmp_path: Path) -> None:
    log = ngc(slower=1.0)
    one, other = import_text(tmp_path, log), import_text(tmp_path, log + "\n", name="copy.log")
    assert one.id != other.id
    assert laws(one, other) == ["identical-repeat"]
