"""HRNet learns generated streets on one core: the real files, pipeline, step and metric, on images of a few pixels."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from making import make_cell, make_workload_cell
from trainmark.datasets.cityscapes.make import make_cityscapes
from trainmark.spec.cell import DataSource
from trainmark.worker.torch.engine import TorchEngine

_NUM_EPOCHS = 5


def test_hrnet_learns_streets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    make_cityscapes(tmp_path / "streets", num_images=72, val_fraction=1 / 9, num_workers=1, size=(64, 128))
    cell = make_cell(
        workload="hrnet_w18",
        batch_size_per_device=4,
        data=DataSource(kind="real", path=str(tmp_path / "streets")),
        epochs=_NUM_EPOCHS,
    )
    engine = TorchEngine(make_workload_cell(**vars(cell)))
    monkeypatch.setattr(engine, "_peak_rate", 0.05)  # 80 steps: the recipe's rate is meant for 160,000
    untrained = engine.evaluate()
    for epoch in range(_NUM_EPOCHS):
        engine.begin_epoch(epoch)
        for _ in range(engine.steps_per_epoch or 0):
            engine.step()
    trained = engine.evaluate()
    engine.close()
    assert engine.warnings() == []
    assert untrained is not None
    assert trained is not None
    # Of 19 classes, the best constant answer is sky: 0.22 of the pixels, and a mean IoU of 0.012.
    assert untrained["miou"] < 0.05
    assert trained["pixel_accuracy"] > 0.45
    assert trained["miou"] > 0.12
