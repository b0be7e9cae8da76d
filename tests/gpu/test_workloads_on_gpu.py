"""Every workload on a GPU: each precision trains, a checkpoint goes on where it was."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from making import make_cell
from trainmark.worker.engine_torch import TorchEngine
from trainmark.workloads.registry import load_cards

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.filterwarnings("default"),  # torch 2.9 and later may warn of the older names for TF32
]
WORKLOADS = tuple(load_cards())


def build(workload: str, **changes: object) -> TorchEngine:
    engine = TorchEngine(make_cell(workload=workload, device="cuda", batch_size_per_device=2, **changes).to_json())
    engine.begin_epoch(0)
    return engine


def losses(engine: TorchEngine, num_steps: int) -> list[float]:
    handles = []
    for _ in range(num_steps):
        engine.step()
        handles.append(engine.queue_loss())
    engine.wait()
    return [engine.read_loss(handle) for handle in handles]


@pytest.mark.parametrize("precision", ["fp32", "tf32", "amp", "bf16"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_precision_trains(workload: str, precision: str) -> None:
    engine = build(workload, precision=precision)
    found = losses(engine, 30)
    assert all(math.isfinite(loss) for loss in found)
    assert engine.weights_changed()
    assert engine.facts()["flags"]["tf32_matmul"] is (precision == "tf32")
    engine.close()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_checkpoint_goes_on_where_it_was(workload: str, tmp_path: Path) -> None:
    """Within 1%: cuDNN may choose another algorithm, and its sums another order."""
    first = build(workload)
    losses(first, 5)
    progress = {"num_steps": 5, "device_s": 0.0, "wall_s": 0.0, "evaluated_step": 0}
    first.save(tmp_path / "checkpoint.pt", progress)
    expected = losses(first, 3)
    first.close()
    second = build(workload)
    assert second.restore(tmp_path / "checkpoint.pt") == progress
    assert losses(second, 3) == pytest.approx(expected, rel=0.01)
    second.close()
