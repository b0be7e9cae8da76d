"""With several processes `fast` captures NCCL's collectives with the step; shown by a group of one process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
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
    assert not engine._train_step._captures


def test_closing_ends_the_group_while_nothing_else_holds_the_graphs(tmp_path: Path) -> None:
    """As a run of several GPUs ends. In a process of its own: what it guards against is a hang."""
    program = """
        import sys, torch
        from torch import distributed
        sys.path.insert(0, sys.argv[1])
        from making import make_workload_cell
        from trainmark.worker.torch.engine import TorchEngine

        store = f"file://{sys.argv[2]}/store"
        device = torch.device("cuda", 0)
        distributed.init_process_group("nccl", init_method=store, rank=0, world_size=1, device_id=device)
        cell = make_workload_cell(
            device="cuda", recipe="fast", precision="bf16", size="small", batch_size_per_device=16
        )
        engine = TorchEngine(cell)
        engine.begin_epoch(0)
        engine.step()
        assert engine._train_step._captures
        engine._ranks.close = distributed.destroy_process_group
        print("closing", flush=True)
        engine.close()
        print("closed", flush=True)
    """
    argv = [sys.executable, "-c", textwrap.dedent(program), str(Path(__file__).parents[1]), str(tmp_path)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert ended.stdout.split() == ["closing", "closed"], ended.stderr
