"""Published numbers: what may be set beside a result, and what is never compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from making import make_cell, make_run
from reporting import html_of, markdown_of
from trainmark.analyse.references import Reference, find_standings, load_references, why_nothing_fits
from trainmark.analyse.table import Line, build_lines
from trainmark.report.sections import say_standing
from trainmark.spec.cell import DataSource
from trainmark.store.folder import read_run
from trainmark.workloads.registry import load_cards

NUMBER = Reference(
    name="NGC PyTorch", publisher="NVIDIA", source="https://example.org", workload="resnet50", size="full",
    unit="images", framework="torch", gpu="NVIDIA H200", devices=1, precision="amp", data="synthetic", value=100.0,
    batch_size_per_device=256, layout="NHWC",
)  # fmt: skip


def line_of(tmp_path: Path, **changes: Any) -> Line:
    """62 images/s, amp, batch 128, on one H200."""
    cell = make_cell(device="cuda", size="full", precision="amp", batch_size_per_device=128, **changes)
    row = read_run(make_run(tmp_path, "a", cell=cell, seconds=[128 / 62] * 30))
    assert row is not None
    environment = {"flags": {"layout": "contiguous"}}
    (line,) = build_lines([replace(row, machine="NVIDIA H200", environment=environment)])
    return line


def test_a_number_that_fits_says_what_was_different(tmp_path: Path) -> None:
    line = line_of(tmp_path)
    (standing,) = find_standings(line, [NUMBER])
    assert standing.share.value == pytest.approx(0.62)
    said = say_standing(standing, "en")
    assert said.startswith("you are at 62.0%")
    assert said.endswith("of NGC PyTorch on NVIDIA H200 (NVIDIA), which used NHWC and batch 256")
    assert "批大小为 256" in say_standing(standing, "zh")
    for text in (markdown_of([line], references=[NUMBER]), html_of([line], references=[NUMBER])):
        assert "you are at 62.0%" in text


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"precision": "bf16"}, "none is in amp"),
        ({"precision": "tf32"}, "none is in amp"),
        ({"data": "real"}, "none in this precision has synthetic data"),
        ({"devices": 8}, "none is of 1 device"),
        ({"workload": "tsm"}, "none is known of resnet50"),
        ({"unit": "clips"}, "none is known of resnet50"),
        ({"size": "small"}, "this is full"),
    ],
)
def test_nothing_else_is_compared(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    line, other = line_of(tmp_path), replace(NUMBER, **change)
    assert find_standings(line, [other]) == ()
    message = why_nothing_fits(line.first, [other])
    assert message is not None
    assert "no published number fits" in message.english
    assert why in message.english


def test_fp32_is_not_tf32(tmp_path: Path) -> None:
    line = line_of(tmp_path)
    strict = replace(line, first=replace(line.first, precision="fp32"))
    assert find_standings(strict, [replace(NUMBER, precision="tf32")]) == ()


@pytest.mark.parametrize("data", ["cached:/data/x", "/data/x"])
def test_cached_and_real_data_are_not_synthetic(tmp_path: Path, data: str) -> None:
    assert find_standings(line_of(tmp_path, data=DataSource.parse(data)), [NUMBER]) == ()


def test_a_processor_is_not_compared_with_gpus(tmp_path: Path) -> None:
    row = read_run(make_run(tmp_path, "a"))
    assert row is not None
    assert "this ran on a CPU" in str(why_nothing_fits(row, load_references()))


def test_the_shipped_numbers_are_sound() -> None:
    found = load_references()
    known = load_cards()
    assert {one.workload for one in found} == set(known) & {one.workload for one in found}
    assert {"resnet50", "tsm", "psenet", "hrnet_w18", "mask_rcnn"} <= {one.workload for one in found}
    for one in found:
        assert one.unit == known[one.workload].unit
        assert one.precision in ("fp32", "tf32", "amp", "bf16")
        assert one.data in ("real", "synthetic")
        assert one.value > 0
        assert one.devices > 0
        assert one.source
        assert not (one.precision == "tf32" and "V100" in one.gpu), "Volta has no TF32"
