"""What the probe says about Paddle's work is counted where it is done: a fault above that shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

from making import make_probe_request  # noqa: E402
from trainmark.worker.paddle import probe  # noqa: E402
from trainmark.worker.paddle.optimizer import Momentum  # noqa: E402
from trainmark.worker.paddle.step import TrainStep  # noqa: E402
from trainmark.workloads.paddle_resnet import ResNet  # noqa: E402
from trainmark.workloads.registry import load_card, load_module  # noqa: E402

Fault = Callable[[pytest.MonkeyPatch], None]


def run_two_steps(patch: pytest.MonkeyPatch, **changes: Any) -> Any:
    patch.setitem(ResNet.__init__.__kwdefaults__, "layers", (1, 1, 1, 1))
    card = load_card("resnet50")
    size: Any = replace(card.sizes["small"], height=32, width=32)  # type: ignore[call-arg]
    patch.setitem(card.sizes, "small", size)  # type: ignore[arg-type]
    make_batch = load_module("resnet50", "synthetic").make_batch
    batch = make_batch(np.random.default_rng(0), batch_size=2, size=size, num_classes=5, fixes_choices=True)
    given: dict[str, Any] = {"framework": "paddle", "batches": [batch], "rates": (0.01, 0.02)}
    return probe.run_probe(make_probe_request(**{**given, **changes}))


def steps_twice(patch: pytest.MonkeyPatch) -> None:
    step = Momentum.step

    def twice(self: Any) -> None:
        step(self)
        step(self)

    patch.setattr(Momentum, "step", twice)


def updates_twice(patch: pytest.MonkeyPatch) -> None:
    update = TrainStep.update

    def twice(self: Any) -> None:
        update(self)
        update(self)

    patch.setattr(TrainStep, "update", twice)


def never_steps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Momentum, "step", lambda _: None)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [(None, 2), (steps_twice, 4), (updates_twice, 4), (never_steps, 0)],
    ids=["no fault", "steps twice", "updates twice", "never steps"],
)
def test_optimizer_steps_are_counted_where_weights_are_updated(
    fault: Fault | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault is not None:
        fault(monkeypatch)
    assert run_two_steps(monkeypatch).facts["optimizer_steps"] == expected


def test_gradient_bytes_are_those_of_the_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    for precision, width in (("fp32", 4), ("fp64", 8)):
        facts = run_two_steps(monkeypatch, precision=precision).facts
        assert facts["gradient_bytes"] == width * facts["num_parameters"]

    export = probe.export_gradients

    def export_and_stop(model: Any, scale: float) -> Any:
        """One weight has no gradient, as if it were not trained."""
        model.fc.bias.clear_gradient(set_to_zero=False)
        model.fc.bias.grad = None
        return export(model, scale)

    monkeypatch.setattr(probe, "export_gradients", export_and_stop)
    facts = run_two_steps(monkeypatch, rates=(0.01,)).facts
    assert facts["gradient_bytes"] == 4 * (facts["num_parameters"] - 5)
