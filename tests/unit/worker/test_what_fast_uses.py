"""`fast` claims only what it uses: without a C++ compiler, and where processes exchange gradients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
from torch import _inductor, distributed

from making import make_workload_cell
from trainmark.messages.training import no_cpp_compiler, not_compiled
from trainmark.worker.torch.compiler import compiler_options
from trainmark.worker.torch.engine import TorchEngine
from trainmark.workloads.optimisations import network_optimisations, optimisations_of
from trainmark.workloads.torch_norm import SumBatchNorm2d


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def build_as_on_gpu(workload: str, monkeypatch: pytest.MonkeyPatch, *, without: Collection[str] = ()) -> TorchEngine:
    """With the optimisations of a GPU, on this CPU and without a C++ compiler."""

    def as_on_gpu(find: Callable[..., frozenset[str]]) -> Callable[..., frozenset[str]]:
        return lambda workload, _, *, without=(): find(workload, "cuda", without=without)

    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("trainmark.worker.torch.engine.optimisations_of", as_on_gpu(optimisations_of))
    of_network = f"trainmark.workloads.{workload}.torch.network_optimisations"
    monkeypatch.setattr(of_network, as_on_gpu(network_optimisations))
    cell = make_workload_cell(workload=workload, recipe="fast", batch_size_per_device=2)
    return TorchEngine(cell, without=without)


def test_without_a_compiler_nothing_that_needs_it_is_used_or_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = build_as_on_gpu("resnet50", monkeypatch, without=["whole_step_graph"])
    used = set(engine.facts()["optimisations"])
    assert not used & {"compile", "sum_norms", "shared_blocks"}
    assert {"channels_last", "fused_optimizer"} <= used
    assert engine.facts()["flags"]["compiled"] is False
    assert not any(isinstance(module, SumBatchNorm2d) for module in engine.model.modules())
    assert engine.warnings() == [not_compiled(what=no_cpp_compiler())]
    assert engine.warnings() == []
    engine.close()


@pytest.mark.parametrize(
    ("workload", "unused", "without"),
    [("mask_rcnn", "whole_step_graph", ()), ("hrnet_w18", "parallel_branches", ("whole_step_graph",))],
)
def test_with_several_processes_only_what_is_used_is_claimed(
    group: None, workload: str, unused: str, without: Collection[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unused in optimisations_of(workload, "cuda")
    engine = build_as_on_gpu(workload, monkeypatch, without=without)
    assert unused not in engine.facts()["optimisations"]
    assert "fused_optimizer" in engine.facts()["optimisations"]
    assert engine.facts()["flags"]["whole_step_graph"] is False
    engine.close()


@pytest.mark.parametrize(
    ("workload", "options"),
    [
        ("resnet50", {"realize_reads_threshold": 16}),
        ("tsm", {"max_autotune_pointwise": True}),
        ("hrnet_w18", {}),
        ("psenet", {}),
        ("mask_rcnn", {}),
    ],
)
def test_only_what_was_faster_there_is_asked_of_the_compiler(workload: str, options: dict[str, object]) -> None:
    assert compiler_options(optimisations_of(workload, "cuda")) == options
    assert set(options) <= set(_inductor.list_options())
    assert compiler_options(optimisations_of(workload, "cpu")) == {}
