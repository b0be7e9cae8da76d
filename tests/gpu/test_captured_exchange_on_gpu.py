"""With several processes `fast` captures NCCL's collectives with the step; shown by a group of one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed
from torch.profiler import ProfilerActivity, profile

from making import make_workload_cell
from stepping import losses_of
from trainmark.messages.scaling import step_captured
from trainmark.worker.torch.engine import TorchEngine

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    device = torch.device("cuda", 0)
    store = f"file://{tmp_path / 'store'}"
    distributed.init_process_group("nccl", init_method=store, rank=0, world_size=1, device_id=device)
    yield
    distributed.destroy_process_group()


def first_losses(engine: TorchEngine) -> list[float]:
    engine.learning_rate = lambda _: 0.01  # type: ignore[method-assign]
    engine.begin_epoch(0)
    return losses_of(engine, 8)


def build() -> TorchEngine:
    cell = make_workload_cell(device="cuda", recipe="fast", precision="bf16", size="small", batch_size_per_device=16)
    return TorchEngine(cell)


def test_a_step_with_all_reduce_is_captured_and_trains_the_same(request: pytest.FixtureRequest) -> None:
    alone = build()
    wanted = first_losses(alone)
    alone.close()
    request.getfixturevalue("group")
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        engine = build()
    names = {event.name for event in seen.events()}
    assert any("all_reduce" in name or "allreduce" in name for name in names), sorted(names)
    assert engine.facts()["flags"]["whole_step_graph"] is True
    assert engine.why_no_twin() == step_captured()
    assert engine._train_step._captures
    assert first_losses(engine) == pytest.approx(wanted, rel=0.02)
    assert wanted[-1] != wanted[0]
    engine.close()
