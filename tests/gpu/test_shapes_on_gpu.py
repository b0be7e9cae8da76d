"""Mask R-CNN `fast` from files: every set of shapes is captured before the first step or in a pause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from making import make_workload_cell
from trainmark.datasets.coco.make import make_coco
from trainmark.spec.cell import DataSource
from trainmark.worker.torch import engine as engine_module
from trainmark.worker.torch.engine import TorchEngine

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("default"),
]


def train(engine: TorchEngine) -> tuple[list[float], int]:
    """The losses of an epoch, and how many pauses there were."""
    num_pauses, handles = 0, []

    def pause(work: Callable[[], None]) -> None:
        nonlocal num_pauses
        num_pauses += 1
        work()

    engine.pause = pause
    engine.learning_rate = lambda _: 0.001  # type: ignore[method-assign]
    engine.begin_epoch(0)
    for _ in range(engine.steps_per_epoch or 0):
        engine.step()
        handles.append(engine.queue_loss())
    engine.wait()
    return [engine.read_loss(handle) for handle in handles], num_pauses


def test_shapes_are_captured_ahead_or_in_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_coco(tmp_path / "coco", num_images=40, val_fraction=0)
    cell = make_workload_cell(
        workload="mask_rcnn",
        device="cuda",
        recipe="fast",
        precision="bf16",
        size="medium",
        batch_size_per_device=2,
        data=DataSource.parse(str(tmp_path / "coco")),
    )
    monkeypatch.setattr(engine_module, "_COLD_S", 1e9)
    monkeypatch.setattr(engine_module, "_WARM_S", 1e9)
    ahead = TorchEngine(cell)
    assert len(ahead._train_step._captures) == len(ahead._shapes) > 2
    losses, num_pauses = train(ahead)
    assert num_pauses == 0
    ahead.close()
    monkeypatch.setattr(engine_module, "_COLD_S", 0.0)
    monkeypatch.setattr(engine_module, "_WARM_S", 0.0)
    late = TorchEngine(cell)
    assert len(late._train_step._captures) == 1
    same, num_pauses = train(late)
    assert num_pauses == len(late._train_step._captures) - 1 > 1
    late.close()
    assert same[0] == pytest.approx(losses[0], rel=1e-3), "random choices are the same"
    assert sum(same) == pytest.approx(sum(losses), rel=0.02)
