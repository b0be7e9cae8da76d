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
