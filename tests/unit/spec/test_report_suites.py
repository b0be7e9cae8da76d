"""The suites of the five reports hold every row of their result tables."""

from __future__ import annotations

from collections import Counter

import pytest

from trainmark.controller.workload import SpecOptions, make_plan

Row = tuple[int, int, str, int, bool]
"""Nodes, devices, precision, batch per device, whether it is a training."""


def rows_of(report: str) -> Counter[Row]:
    plan = make_plan(SpecOptions(what=f"report-{report}", overrides={}))
    return Counter(
        (cell.nodes, cell.devices_per_node, cell.precision, cell.batch_size_per_device, cell.is_training)
        for cell in plan.cells
    )


def test_hrnet() -> None:
    speeds = [(1, 1, "fp32", 8), (1, 8, "fp32", 8), (2, 8, "fp32", 2), (4, 8, "fp32", 4)]
    speeds += [(1, 1, "amp", 4), (1, 8, "amp", 4), (2, 8, "amp", 4), (4, 8, "amp", 2)]
    trainings = [(1, 8, "fp32", 8), (4, 8, "fp32", 4)]
    assert rows_of("hrnet_w18") == Counter([*((*row, False) for row in speeds), *((*row, True) for row in trainings)])
    plan = make_plan(SpecOptions(what="report-hrnet_w18", overrides={}))
    assert {cell.until_target for cell in plan.cells if cell.is_training} == {(("miou", 0.78),)}


def test_mask_rcnn() -> None:
    shapes = [(1, 1), (1, 8), (4, 8)]
    rows = [(*shape, precision, batch, False) for shape in shapes for precision in ("fp32", "amp") for batch in (2, 4)]
    assert rows_of("mask_rcnn") == Counter(rows)
    assert len(rows) == 12


def test_resnet50() -> None:
    shapes = [(1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8)]
    assert rows_of("resnet50") == {(*shape, "fp32", 128, False): 6 for shape in shapes}


def test_tsm() -> None:
    speeds = [(*shape, precision, 16, False) for shape in ((1, 1), (1, 8), (4, 8)) for precision in ("fp32", "amp")]
    accuracies = [(*shape, precision, 16, True) for shape in ((1, 8), (4, 8)) for precision in ("fp32", "amp")]
    assert rows_of("tsm") == Counter(speeds + accuracies)


def test_psenet() -> None:
    assert rows_of("psenet") == {(1, 1, "fp32", 8, False): 1, (1, 8, "fp32", 8, False): 1, (1, 1, "fp32", 16, True): 1}


@pytest.mark.parametrize("report", ["hrnet_w18", "tsm", "psenet"])
def test_rows_whose_data_set_is_not_here_are_skipped_by_name(report: str) -> None:
    """Unless --data says where it is: then a wrong folder is an error."""
    plan = make_plan(SpecOptions(what=f"report-{report}", overrides={"device": "cpu", "nodes": 1, "devices": 1}))
    reasons = {cell.is_training: plan.skipped.get(cell) for cell in plan.cells}
    assert reasons[False] is None
    assert reasons[True] is not None
    assert "pass --data DIR" in reasons[True].english
    given = make_plan(
        SpecOptions(what=f"report-{report}", overrides={"device": "cpu", "nodes": 1, "devices": 1, "data": "nowhere"})
    )
    assert not given.skipped
