"""The part of a measured matrix rate that a run uses, in tables, `--json` and the page of a run."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from making import make_cell, make_run
from trainmark.analyse.table import build_lines
from trainmark.report.columns import describe_line, describe_numbers, shown_columns
from trainmark.report.run_page import print_run
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow
from trainmark.workloads.registry import load_card

PEAK = 500e12


def make_row(tmp_path: Path, *, share: float, has_peak: bool = True, name: str = "r") -> RunRow:
    cell = make_cell(batch_size_per_device=256, devices_per_node=2, size="full", precision="bf16", device="cuda")
    work = cell.global_batch_size * load_card("resnet50").sizes["full"].flops_per_sample
    folder = make_run(tmp_path, name, cell=cell, seconds=[work / (2 * PEAK * share)] * 60)
    peak = {"matrix_flops_per_s": PEAK} if has_peak else {}
    (folder / "env.json").write_text(json.dumps({"device_name": "Imaginary 9000", **peak}))
    row = read_run(folder)
    assert row is not None
    return row


@pytest.mark.parametrize(("share", "text", "number"), [(0.25, "25%", 0.25), (1.05, "above the peak", None)])
def test_mfu_is_a_share_of_one_devices_peak(tmp_path: Path, share: float, text: str, number: float | None) -> None:
    row = make_row(tmp_path, share=share)
    assert describe_line(build_lines([row])[0], "en")["mfu"] == text
    assert describe_numbers(row)["mfu"] == (None if number is None else pytest.approx(number))
    console = Console(file=io.StringIO(), width=120)
    print_run(row, tmp_path / "r", console)
    assert isinstance(console.file, io.StringIO)
    assert f"{text}: {500 * share:.3g} TFLOP/s of 500 that a matrix product reached" in console.file.getvalue()


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
