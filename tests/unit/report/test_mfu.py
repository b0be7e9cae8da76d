"""The part of a measured matrix rate that a run uses, in tables, `--json` and the page of a run."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from making import make_cell, make_run
from trainmark.analyse.table import build_lines
from trainmark.analyse.utilisation import find_missing_peak
from trainmark.cli.main import main
from trainmark.controller import execute
from trainmark.controller.execute import SweepResult
from trainmark.measured_peaks import MATRIX_PRECISIONS
from trainmark.report.columns import describe_line, describe_numbers, shown_columns
from trainmark.report.run_page import print_run
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow
from trainmark.workloads.registry import load_card

PEAK = 500e12
STEADY = [1.0] * 60
NOISY = [0.959, 1.294, 2.549, 2.139, 5.547, 3.002, 1.436, 0.803, 0.251, 0.176]
"""Steps, as parts of the step that has the share that a test asks for."""


def make_row(
    tmp_path: Path, *, share: float, has_peak: bool = True, name: str = "r", steps: list[float] = STEADY, **changes: Any
) -> RunRow:
    facts = {"batch_size_per_device": 256, "devices_per_node": 2, "size": "full", "precision": "bf16", "device": "cuda"}
    cell = make_cell(**{**facts, **changes})
    work = cell.global_batch_size * load_card("resnet50").sizes["full"].flops_per_sample
    step_s = work / (2 * PEAK * share)
    folder = make_run(tmp_path, name, cell=cell, seconds=[step_s * step for step in steps])
    peak = {"matrix_flops_per_s": PEAK} if has_peak else {}
    (folder / "env.json").write_text(json.dumps({"device_name": "Imaginary 9000", **peak}))
    row = read_run(folder)
    assert row is not None
    return row


def page_of(row: RunRow, tmp_path: Path) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_run(row, tmp_path / row.id, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("share", "text", "number"),
    [
        (0.25, "25%", 0.25),
        (0.998, "100%", 0.998),
        (1.002, "above the peak", None),
        (1.15, "above the peak", None),
        (1.3, "above the peak", None),
    ],
)
def test_mfu_is_a_share_of_one_devices_peak(tmp_path: Path, share: float, text: str, number: float | None) -> None:
    """No number above 1, also up to 1.2 times the peak, where no law is broken yet."""
    row = make_row(tmp_path, share=share)
    assert describe_line(build_lines([row])[0], "en")["mfu"] == text
    assert describe_numbers(row)["mfu"] == (None if number is None else pytest.approx(number))
    page = page_of(row, tmp_path)
    assert f"{text}: {500 * share:.3g} TFLOP/s of 500 that a matrix product reached" in page
    assert ("measure the peak again: trainmark doctor --peaks" in page) == (number is None)
    assert ("! above-peak" in page) == (share > 1.2)
    assert "had not been measured" not in page


def test_without_a_measured_peak_there_is_no_column(tmp_path: Path) -> None:
    row = make_row(tmp_path, share=0.25, has_peak=False)
    cells = describe_line(build_lines([row])[0], "en")
    assert "mfu" not in shown_columns([cells])
    assert describe_numbers(row)["mfu"] is None


def test_a_peak_that_was_measured_after_the_first_run_counts_for_its_repeats(tmp_path: Path) -> None:
    rows = [make_row(tmp_path, share=0.25, has_peak=has_peak, name=f"r{has_peak:d}") for has_peak in (False, True)]
    (line,) = build_lines(rows)
    assert line.first is rows[0]
    assert describe_line(line, "en")["mfu"] == "25%"
    assert find_missing_peak([line]) is None


# -- where the peak was never measured ---------------------------------------------------------------------------------

MISSING = (
    "the peak of Imaginary 9000 in bf16 had not been measured; "
    "run trainmark doctor --peaks once on that machine, with PyTorch"
)


def test_a_page_says_that_the_peak_was_not_measured(tmp_path: Path) -> None:
    assert f"  MFU           none: {MISSING}\n" in page_of(make_row(tmp_path, share=0.25, has_peak=False), tmp_path)


@pytest.mark.parametrize("changes", [{"device": "cpu"}, {"precision": "fp16"}], ids=str)
def test_a_page_is_silent_where_doctor_cannot_help(tmp_path: Path, changes: dict[str, str]) -> None:
    page = page_of(make_row(tmp_path, share=0.25, has_peak=False, **changes), tmp_path)
    assert "MFU" not in page
    assert "doctor" not in page


@pytest.mark.parametrize("has_peak", [True, False])
def test_a_page_of_a_run_too_noisy_for_a_result_has_no_mfu(tmp_path: Path, has_peak: bool) -> None:
    row = make_row(tmp_path, share=0.05, has_peak=has_peak, steps=NOISY)
    (line,) = build_lines([row])
    assert line.estimate is not None
    assert line.estimate.is_too_noisy
    assert "MFU" not in page_of(row, tmp_path)


def test_the_precisions_are_those_of_a_gpus_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A precision that is missing there would be advised in vain."""
    torch = pytest.importorskip("torch")
    from trainmark.worker.torch import ceilings

    assert set(ceilings._DTYPES) == set(MATRIX_PRECISIONS)
    monkeypatch.setattr(ceilings, "matrix_flops_per_s", lambda *_: 1.0)
    monkeypatch.setattr(ceilings, "copy_bytes_per_s", lambda _: 1.0)
    monkeypatch.setattr(ceilings, "jpegs_per_s", lambda: (1.0, 1.0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Imaginary 9000")
    monkeypatch.setattr(torch.cuda, "clock_rate", lambda: 1000)
    found = ceilings.measure_ceilings(torch.device("cuda"))
    assert tuple(found["matrix_flops_per_s"]) == MATRIX_PRECISIONS


def talk_of_run(rows: list[RunRow], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *options: str) -> int:
    result = SweepResult(rows=rows, asked=(), num_runs=len(rows), num_done=len(rows), interrupt=None)
    monkeypatch.setattr(execute, "run_sweep", lambda *_: result)
    return main(["run", "--store", str(tmp_path), *options, "--", "true"])


@pytest.mark.parametrize("options", [(), ("--json",)], ids=str)
def test_run_says_once_that_the_peak_was_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    rows = [
        make_row(tmp_path, share=0.05, has_peak=False, name=f"{precision}{devices}", precision=precision,
                 devices_per_node=devices)
        for precision in ("bf16", "tf32") for devices in (1, 2)
    ]  # fmt: skip
    assert talk_of_run(rows, monkeypatch, tmp_path, *options) == 0
    out, err = capsys.readouterr()
    said = MISSING.replace("bf16", "bf16 and tf32")
    assert [line for line in err.splitlines() if "MFU" in line] == [f"note: no MFU: {said}"]
    assert err.splitlines()[-1].startswith("next: ")
    assert "doctor" not in out


@pytest.mark.parametrize("changes", [{"has_peak": True}, {"device": "cpu"}, {"precision": "fp16"}], ids=str)
def test_run_is_silent_where_the_peak_is_known_or_of_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    rows = [make_row(tmp_path, **{"share": 0.25, "has_peak": False, **changes})]
    assert talk_of_run(rows, monkeypatch, tmp_path) == 0
    assert "no MFU" not in capsys.readouterr().err


def test_a_failed_run_and_a_command_need_no_peak(tmp_path: Path) -> None:
    row = make_row(tmp_path, share=0.25, has_peak=False)
    for changes in ({"outcome": "failed"}, {"source": "command", "workload": None}, {"source": "a.log"}):
        assert find_missing_peak(build_lines([replace(row, **changes)])) is None, changes
    said = find_missing_peak(build_lines([row]))
    assert said is not None
    assert said.english == MISSING
