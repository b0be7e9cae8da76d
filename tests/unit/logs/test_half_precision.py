"""`fp16` is pure half precision and `amp` is mixed; a source that says only fp16 is named as its path says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from samples import import_text
from test_traps import codes

from trainmark.analyse.table import build_lines
from trainmark.cli.main import main
from trainmark.store.index import Store

STEPS = "".join(
    f"[TRAIN] epoch: 1, iter: {step}/100, loss: 1.0, batch_cost: 0.1 sec, ips: 80.0 samples/sec\n"
    for step in range(10, 90, 10)
)
O1 = "2023-07-27 12:51:25 [INFO]\tuse AMP to train. AMP level = O1\n"
O2 = "2023-07-27 12:51:25 [INFO]\tuse AMP to train. AMP level = O2\n"
NO_LEVEL = "2021-07-27 12:51:25 [INFO]\tuse AMP to train\n"
SWITCHES = "{'use_amp': True,\n 'use_pure_fp16': True}\n"
ONLY_FP16 = "device: cuda n_gpu: 1, 16-bits training: True\n"


def import_log(tmp_path: Path, text: str) -> None:
    (tmp_path / "ResNet50_bs8_N1C1.log").write_text(text + STEPS)
    assert main(["import", str(tmp_path / "ResNet50_bs8_N1C1.log"), "--store", str(tmp_path / "runs")]) == 0


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("r50_bs8.log", O2, "fp16"),
        ("r50_bs8_fp16.log", O2, "fp16"),
        ("r50_bs8_amp.log", O2, "fp16"),
        ("r50_bs8_pure_fp16.log", O2, "fp16"),
        ("r50_bs8_pure_fp16.log", "", "fp16"),
        ("r50_bs8_pure_fp16.log", ONLY_FP16, "fp16"),
        ("r50_bs8_pure_fp16.log", "{'use_amp': True}\n", "fp16"),
        ("r50_bs8.log", SWITCHES, "fp16"),
        ("r50_bs8.log", O1, "amp"),
        ("r50_bs8.log", NO_LEVEL, "amp"),
        ("r50_bs8_fp16.log", O1, "amp"),
        ("r50_bs8_fp16.log", NO_LEVEL, "amp"),
        ("r50_bs8_fp16.log", "{'use_amp': True}\n", "amp"),
        ("r50_bs8.log", ONLY_FP16, "amp"),
        ("r50_bs8_amp.log", ONLY_FP16, "amp"),
        ("r50_bs8_fp16.log", ONLY_FP16, "fp16"),
        ("r50_bs8_fp16.log", "", "fp16"),
        ("r50_bs8_fp32.log", "", "fp32"),
    ],
)
def test_which_kind(tmp_path: Path, name: str, text: str, expected: str) -> None:
    row = import_text(tmp_path, text + STEPS, name=name)
    assert row.precision == expected
    assert "path-disagrees" not in codes(row)


def test_a_path_of_another_precision_is_pointed_out(tmp_path: Path) -> None:
    row = import_text(tmp_path, ONLY_FP16 + STEPS, name="r50_bs8_fp32.log")
    assert row.precision == "amp"
    assert "path-disagrees" in codes(row)


def test_the_older_name_is_accepted_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r50_bs8.log").write_text(STEPS)
    words = ["import", str(tmp_path / "r50_bs8.log"), "--store", str(tmp_path / "runs"), "--precision", "pure_fp16"]
    assert main(words) == 0
    assert [row.precision for row in Store(tmp_path / "runs").rows()] == ["fp16"]
    capsys.readouterr()
    assert main(["import", "--help"]) == 0
    help_text = capsys.readouterr().out
    assert "bf16,fp16}" in help_text
    assert "pure_fp16" not in help_text
    assert main(["import", str(tmp_path), "--precision", "half"]) == 2


def test_runs_that_an_older_version_imported_are_pooled_with_new_ones(tmp_path: Path) -> None:
    import_log(tmp_path, O2)
    (path,) = (tmp_path / "runs").glob("*/run.json")
    document = json.loads(path.read_text())
    assert document["cell"]["precision"] == "fp16"
    document["cell"]["precision"], document["cell_id"] = "pure_fp16", "of-older"
    path.unlink()  # the index reads a finished folder again if its files change
    path.write_text(json.dumps(document))
    import_log(tmp_path, O2 + STEPS)
    rows = Store(tmp_path / "runs").rows()
    assert [row.precision for row in rows] == ["fp16", "fp16"]
    assert len({row.cell_id for row in rows}) == 2
    (line,) = build_lines(rows)
    assert len(line.runs) == 2
