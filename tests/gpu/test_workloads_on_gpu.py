"""Every workload on a GPU: each precision trains, a checkpoint goes on where it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from making import make_workload_cell
from stepping import losses_of
from trainmark.datasets.cityscapes.make import make_cityscapes
from trainmark.datasets.coco.make import make_coco
from trainmark.datasets.icdar2015.make import Page, make_icdar2015
from trainmark.datasets.kinetics.make import make_kinetics
from trainmark.spec.cell import DataSource
from trainmark.worker.torch.engine import TorchEngine
from trainmark.workloads.registry import load_cards

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.filterwarnings("default"),  # torch 2.9 and later may warn of the older names for TF32
]
WORKLOADS = tuple(load_cards())
DATA: dict[str, Callable[[Path], Any]] = {
    "hrnet_w18": partial(make_cityscapes, num_images=10, num_workers=1, size=(64, 128)),
    "mask_rcnn": partial(make_coco, num_images=20, num_workers=1, mean_size=(48, 64)),
    "psenet": partial(make_icdar2015, num_images=10, num_workers=1, page=Page(height=120, width=200, max_words=3)),
    "tsm": partial(make_kinetics, num_clips=12, num_classes=2, num_workers=1, num_frames=16, size=(48, 64)),
}


def build(workload: str, **changes: object) -> TorchEngine:
    engine = TorchEngine(make_workload_cell(workload=workload, device="cuda", batch_size_per_device=2, **changes))
    engine.begin_epoch(0)
    return engine


@pytest.mark.parametrize("precision", ["fp32", "tf32", "amp", "bf16"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_precision_trains(workload: str, precision: str) -> None:
    engine = build(workload, precision=precision)
    found = losses_of(engine, 30)
    assert all(math.isfinite(loss) for loss in found)
    assert engine.weights_changed()
    assert engine.facts()["flags"]["tf32_matmul"] is (precision == "tf32")
    engine.close()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_checkpoint_goes_on_where_it_was(workload: str, tmp_path: Path) -> None:
    """The first loss is that of the same weights. Gradients are summed in any order on a GPU, and what that does grows
    from step to step: one H200 gave PSENet's third loss 1.4% apart."""
    first = build(workload)
    losses_of(first, 5)
    progress = {"num_steps": 5, "device_s": 0.0, "wall_s": 0.0, "evaluated_step": 0}
    first.save(tmp_path / "checkpoint", progress)
    expected = losses_of(first, 3)
    first.close()
    second = build(workload)
    assert second.restore(tmp_path / "checkpoint") == progress
    found = losses_of(second, 3)
    assert found[0] == pytest.approx(expected[0], rel=0.002)
    assert found == pytest.approx(expected, rel=0.05)
    second.close()


@pytest.mark.parametrize("data", ["", "cached:"])
@pytest.mark.parametrize("workload", DATA)
def test_samples_of_loader_processes_train_and_are_evaluated(workload: str, data: str, tmp_path: Path) -> None:
    """In fp16, and once more after the evaluation, which ends the processes and starts others."""
    DATA[workload](tmp_path / "data")
    engine = build(workload, precision="amp", data=DataSource.parse(f"{data}{tmp_path / 'data'}"))
    for epoch in range(2):
        engine.begin_epoch(epoch)
        assert all(math.isfinite(loss) for loss in losses_of(engine, engine.steps_per_epoch or 8))
        metrics = engine.evaluate()
        assert metrics is None if data else metrics and all(0 <= value <= 1 for value in metrics.values())
    assert engine.warnings() == []
    engine.close()
