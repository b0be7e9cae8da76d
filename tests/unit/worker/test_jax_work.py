"""What the probe says about JAX's work is read from the graph that runs: a fault in it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_jax import jax, shrink_resnet

from making import make_probe_request
from trainmark.worker.jax import probe
from trainmark.worker.jax.step import TrainStep
from trainmark.workloads import jax_layers, jax_resnet
from trainmark.workloads.registry import load_card, load_module

pytestmark = pytest.mark.jax


@pytest.fixture(autouse=True)
def _fresh_networks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    shrink_resnet(monkeypatch)
    probe.forget_networks()
    yield
    probe.forget_networks()


def run_two_steps(**changes: Any) -> Any:
    size: Any = replace(load_card("resnet50").sizes["small"], height=32, width=32)  # type: ignore[call-arg]
    make_batch = load_module("resnet50", "synthetic").make_batch
    batch = make_batch(np.random.default_rng(0), batch_size=2, size=size, num_classes=5, fixes_choices=True)
    given: dict[str, Any] = {"framework": "jax", "batches": [batch], "rates": (0.01, 0.02)}
    return probe.run_probe(make_probe_request(**{**given, **changes})).facts


def updates_twice(update: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, state, gradients, rate: update(self, update(self, state, gradients, rate), gradients, rate)


def never_updates(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, state, gradients, rate: state


@pytest.mark.parametrize(("fault", "expected"), [(lambda update: update, 2), (updates_twice, 4), (never_updates, 0)])
def test_optimizer_steps_are_counted_by_the_optimizer(
    fault: Callable[..., Any], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TrainStep, "_update", fault(TrainStep._update))
    facts = run_two_steps()
    assert facts["optimizer_steps"] == expected
    assert facts["gradient_bytes"] == 4 * facts["num_parameters"]


def test_a_step_that_fp16_skips_is_no_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmark.worker.jax.step._FIRST_SCALE", 2.0**60)
    assert run_two_steps(precision="amp")["optimizer_steps"] == 0


def test_flops_are_those_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The zeros that pad the kernel of the stem's blocks are no work; a second convolution is."""
    expected = run_two_steps()["forward_flops"]
    assert run_two_steps(recipe="fast")["forward_flops"] == expected
    probe.forget_networks()
    convolve = jax_resnet._convolve_blocks

    def convolve_twice(*given: Any) -> Any:
        return (convolve(*given) + convolve(*given)) / 2

    monkeypatch.setattr(jax_resnet, "_convolve_blocks", convolve_twice)
    num_places, num_weights = 2 * 16 * 16, jax_resnet.WIDTHS[0] * 3 * 7 * 7
    assert run_two_steps(recipe="fast")["forward_flops"] == expected + 2 * num_places * num_weights


def in_default_precision(*given: Any, precision: Any, **other: Any) -> Any:
    return jax.lax.dot_general(*given, (((1,), (0,)), ((), ())), **other)


def convolved_back_in_default_precision(
    layers: Any, x: Any, weight: Any, stride: int, padding: Any, *, convolve: Any = jax_layers.convolve_by
) -> Any:
    """The forward pass is right, its gradient is not."""
    forward = jax.custom_vjp(lambda x, weight: convolve(layers, x, weight, stride, padding))
    rounded = replace(layers, numbers=replace(layers.numbers, precision=jax.lax.Precision.DEFAULT))
    forward.defvjp(
        lambda x, weight: (forward(x, weight), (x, weight)),
        lambda kept, gradient: jax.vjp(lambda *both: convolve(rounded, *both, stride, padding), *kept)[1](gradient),
    )
    return forward(x, weight)


def test_tf32_is_read_from_every_product(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_two_steps()["tf32"] is False
    assert run_two_steps(recipe="fast")["tf32"] is False
    assert run_two_steps(precision="tf32")["tf32"] is True
    with monkeypatch.context() as patch:
        patch.setattr(jax_layers.jnp, "matmul", in_default_precision)
        probe.forget_networks()
        assert run_two_steps()["tf32"] is True, "one matrix product, although the setting is right"
    monkeypatch.setattr(jax_layers, "convolve_by", convolved_back_in_default_precision)
    probe.forget_networks()
    assert run_two_steps()["tf32"] is True, "in the backward pass"
