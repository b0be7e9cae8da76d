"""Compiling and capturing for a set of shapes: before the first step or in a pause, and without a trace in training.

A CPU captures nothing, so a stand-in for the captured graph runs the step again on the graph's own tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from making import make_workload_cell
from trainmark.datasets.coco.make import make_coco
from trainmark.spec.cell import DataSource
from trainmark.worker.torch import engine as engine_module
from trainmark.worker.torch import step as step_module
from trainmark.worker.torch.engine import TorchEngine
from trainmark.worker.torch.step import Precision, TrainStep, _Captured, _shapes_of
from trainmark.workloads.card import Sgd
from trainmark.workloads.torch import ParameterGroup


@pytest.fixture(autouse=True)
def captures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The shapes that were captured, in order."""
    captured: list[Any] = []

    def capture(step: TrainStep, batch: Any) -> None:
        static = torch.utils._pytree.tree_map_only(Tensor, Tensor.clone, batch)
        loss = torch.zeros(())
        graph: Any = SimpleNamespace(replay=lambda: loss.copy_(step._step(static)), reset=lambda: None)
        step._captures[_shapes_of(batch)] = _Captured(graph=graph, static=static, source=batch, loss=loss)
        captured.append(_shapes_of(batch))

    monkeypatch.setattr(TrainStep, "_capture", capture)
    return captured


def build_step(*uses: str) -> TrainStep:
    """With everything that a step can change: weights, statistics, momenta, the scale of the loss, random numbers."""
    torch.manual_seed(0)
    workload: Any = SimpleNamespace(
        parameter_groups=lambda model: [ParameterGroup(params=list(model.parameters()), weight_decay=1e-4)],
        compute_loss=lambda model, batch: model(batch).square().mean() + 1,
    )
    step = TrainStep(
        model=nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)),
        workload=workload,
        optimizer_facts=Sgd(momentum=0.9, weight_decay=1e-4),
        precision=Precision.of("amp", "cpu"),
        uses=["fused_optimizer", *uses],
    )
    step._scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    step.set_learning_rate(0.05)
    return step


def batches() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(size, 4, generator=generator) for size in (8, 8, 6, 8, 6, 6, 8)]


def losses_of(step: TrainStep) -> list[float]:
    losses = []
    for batch in batches():
        step.run(batch)
        losses.append(step.loss.item())
    return losses


def everything(step: TrainStep) -> list[Tensor]:
    scaler = [torch.tensor(float(value)) for value in step._scaler.state_dict().values()]
    return [*(tensor.clone() for tensor in step._state_tensors()), *scaler, torch.get_rng_state()]


@pytest.mark.parametrize("num_steps", [0, 3])
def test_preparing_changes_nothing_that_the_next_step_depends_on(num_steps: int) -> None:
    step = build_step("whole_step_graph")
    for batch in batches()[:num_steps]:
        step.run(batch)
    before = everything(step)
    step.prepare(torch.randn(5, 4, generator=torch.Generator().manual_seed(2)))
    after = everything(step)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_shapes_that_come_late_are_prepared_in_a_pause_and_train_the_same(captures: list[Any]) -> None:
    wanted = losses_of(build_step())
    step = build_step("whole_step_graph")
    pauses: list[int] = []

    def pause(work: Callable[[], None]) -> None:
        pauses.append(len(captures))
        work()

    step.pause = pause
    step.prepare(batches()[0])
    assert losses_of(step) == pytest.approx(wanted)
    assert pauses == [1], "once: for the first batch of six"
    assert captures == [((8, 4),), ((6, 4),)]


@pytest.fixture
def from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], TorchEngine]:
    """Mask R-CNN from images of several shapes, with what `fast` uses on a GPU except for the compiler."""
    uses = frozenset({"channels_last", "fixed_shapes", "fused_optimizer", "whole_step_graph"})
    monkeypatch.setattr(engine_module, "optimisations_of", lambda *_, **__: uses)
    monkeypatch.setattr("trainmark.workloads.mask_rcnn.torch.network_optimisations", lambda *_, **__: uses)
    monkeypatch.setattr(step_module, "_WARM_STEPS", 1)
    make_coco(tmp_path / "coco", num_images=8, val_fraction=0, num_workers=1, mean_size=(48, 64))
    cell = make_workload_cell(
        workload="mask_rcnn",
        recipe="fast",
        batch_size_per_device=1,
        data=DataSource.parse(str(tmp_path / "coco")),
    )
    return lambda: TorchEngine(cell)


def train(engine: TorchEngine) -> tuple[list[float], int]:
    """The losses of an epoch, and how many pauses there were."""
    num_pauses, losses = 0, []

    def pause(work: Callable[[], None]) -> None:
        nonlocal num_pauses
        num_pauses += 1
        work()

    engine.pause = pause
    engine.begin_epoch(0)
    for _ in range(engine.steps_per_epoch or 0):
        engine.step()
        losses.append(engine.read_loss(engine.queue_loss()))
    engine.close()
    return losses, num_pauses


def test_all_shapes_of_the_data_are_prepared_before_the_first_step(
    from_files: Callable[[], TorchEngine], captures: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = from_files()
    num_sets = len(captures)
    assert num_sets == len(set(captures)) > 2
    losses, num_pauses = train(ahead)
    assert num_pauses == 0
    assert len(captures) == num_sets

    captures.clear()
    monkeypatch.setattr(engine_module, "_COLD_S", 0.0)
    late = from_files()
    assert len(captures) == 1, "no time for more than what the first step needs"
    assert late._fingerprint() == ahead._first_weights
    same, num_pauses = train(late)
    assert num_pauses == len(captures) - 1 > 1
    assert same == losses, "neither order leaves a trace"
