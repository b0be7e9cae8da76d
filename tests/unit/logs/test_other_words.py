"""The same facts in other words: what real logs print beside the usual form of their dialect."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import SAMPLES, import_text
from test_traps import STEADY, codes, ngc, paddle

from trainmark.analyse.protocols import apply_protocol
from trainmark.analyse.result import describe_run
from trainmark.logs.registry import load_dialects
from trainmark.logs.stream import LogStream


def sample(dialect: str) -> str:
    return next(sample.text for sample in SAMPLES if sample.dialect == dialect)

# -- times to train ----------------------------------------------------------------------------------------------------


def test_a_first_percent_is_no_fraction(tmp_path: Path) -> None:
    """0.9 among 40.9 and 76.9 is 0.9%, which is below 0.759."""
    evals = "".join(
        f"AI-Rank-log 17041032{10 * epoch:02d}.1 eval_accuracy:{value}, total_epoch_cnt:{epoch}\n"
        for epoch, value in ((1, 0.9), (2, 40.9), (3, 76.9))
    )
    text = f"AI-Rank-log 1704103200.1 test_begin\n{evals}AI-Rank-log 1704103290.1 test_finish\n"
    row = import_text(tmp_path, ngc(STEADY) + text)
    assert describe_run(row)["time_to_train_s"] == pytest.approx(30.0)


def test_an_evaluation_by_the_logs_own_name_of_our_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(import_text.__globals__["TARGETS"], "hrnet_w18", {"metric": "miou", "value": 0.78})
    tail = "2024-01-01 10:01:01 [INFO]\t[EVAL] #Images: 500 mIoU: 0.7812 Acc: 0.96 Kappa: 0.9\n"
    row = import_text(tmp_path, paddle(17.0, devices=1, batch=8, tail=tail), name="hrnet.log")
    assert describe_run(row)["time_to_train_s"] == 60.0

# -- protocols ---------------------------------------------------------------------------------------------------------


def dlperf(lengths: list[int], seconds: list[float]) -> str:
    return "".join(
        f"[Pass {epoch}, train batch {step}] \tloss 7.0, acc1 0.0, lr 0.1, elapse {each} sec\n"
        for epoch, (length, each) in enumerate(zip(lengths, seconds, strict=True))
        for step in range(length)
    )


@pytest.mark.parametrize(
    ("lengths", "seconds"), [([150, 150], [0.25, 0.5]), ([20, 50, 50, 50], [9.0, 0.25, 0.25, 9.0])]
)
def test_dlperf_counts_iterations_through_the_epochs(lengths: list[int], seconds: list[float], tmp_path: Path) -> None:
    row = import_text(tmp_path, dlperf(lengths, seconds), name="1n1g/r50_b128_fp32_1.log")
    answer = apply_protocol("dlperf", row)
    assert (answer["value"], answer["records"]) == (512.0, 100)


def test_steps_a_second_need_no_batch(tmp_path: Path) -> None:
    lines = "".join(f"Epoch: [0][{10 * n}/100]\tTime 0.500 (0.5)\tLoss 5.9 (5.9)\n" for n in range(1, 10))
    row = import_text(tmp_path, lines)
    values = [apply_protocol(f"paddle-benchmark:mode={mode}", row)["value"] for mode in range(4)]
    assert values == [None, 2.0, 2.0, None]
