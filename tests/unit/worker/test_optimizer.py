"""The optimizer is the workload's choice: each kind trains, and continues from a checkpoint as if never interrupted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from trainmark.worker.torch.step import Precision, TrainStep
from trainmark.workloads.card import AdamW, Optimizer, Sgd
from trainmark.workloads.torch import ParameterGroup

KINDS = [Sgd(momentum=0.9, weight_decay=1e-4), AdamW(weight_decay=1e-2)]
BATCH = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))


def build(facts: Optimizer, *, is_fast: bool = False) -> TrainStep:
    torch.manual_seed(0)
    workload: Any = SimpleNamespace(
        parameter_groups=lambda model: [ParameterGroup(params=list(model.parameters()), weight_decay=1e-4)],
        compute_loss=lambda model, batch: (model(batch) - batch.flip(1)).square().mean(),
    )
    precision = Precision.of("fp32", "cpu")
    step = TrainStep(
        model=nn.Linear(4, 4),
        workload=workload,
        optimizer_facts=facts,
        precision=precision,
        uses=["fused_optimizer"] if is_fast else [],
    )
    step.set_learning_rate(0.05)
    return step


def train(step: TrainStep, num_steps: int) -> list[float]:
    losses = []
    for _ in range(num_steps):
        step.run(BATCH)
        losses.append(step.loss.item())
    return losses


@pytest.mark.parametrize("facts", KINDS, ids=lambda facts: type(facts).__name__)
def test_a_checkpoint_continues_as_if_never_interrupted(facts: Optimizer) -> None:
    whole = train(build(facts), 12)
    assert whole[-1] < whole[0]
    first = build(facts)
    assert train(first, 6) == whole[:6]
    second = build(facts)
    second.load_state(first.state())
    assert train(second, 6) == whole[6:]


@pytest.mark.parametrize("facts", KINDS, ids=lambda facts: type(facts).__name__)
def test_buffers_of_zeros_do_not_change_the_first_step(facts: Optimizer) -> None:
    """A fused optimizer gets its buffers before the first step."""
    from trainmark.worker.torch.optimizer import fill_state

    filled = build(facts)
    fill_state(filled.optimizer, facts, is_fused=False)
    assert train(filled, 4) == train(build(facts), 4)


def test_a_checkpoint_of_7cd78e8_is_read() -> None:
    """It has one list of momenta instead of the optimizer's state."""
    whole = train(build(KINDS[0]), 8)
    first = build(KINDS[0])
    train(first, 4)
    state = first.state()
    state["momenta"] = [tensors["momentum_buffer"] for tensors in state.pop("optimizer")]
    second = build(KINDS[0])
    second.load_state(state)
    assert train(second, 4) == whole[4:]


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(TypeError, match="no optimizer of PyTorch for Optimizer"):
        build(Optimizer(weight_decay=0.0))
