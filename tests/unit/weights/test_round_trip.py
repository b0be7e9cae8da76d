"""Weights go from PyTorch through every other framework of a workload and back without the change of a bit."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from trainmark.frameworks import frameworks
from trainmark.weights.neutral import WeightsError
from trainmark.worker.probe import ProbeRequest
from trainmark.workloads.registry import load_card, load_cards

pytest.importorskip("torch")

pytestmark = pytest.mark.jax
_NUM_CLASSES = 3


def pass_through(workload: str, framework: str, weights: dict[str, np.ndarray] | None) -> dict[str, np.ndarray]:
    """Into a fresh model of the framework and out again."""
    request = ProbeRequest(
        workload=workload,
        framework=framework,
        recipe="reference",
        precision="fp32",
        size="small",
        device="cpu",
        num_classes=_NUM_CLASSES,
        seed=3,
        weights=weights,
        batches=(),
        rates=(),
        keep_weights_after=(0,),
    )
    package: Any = importlib.import_module(f"trainmark.worker.{framework}.probe")
    return dict(package.run_probe(request).weights[0])


@pytest.mark.parametrize("workload", sorted(load_cards()))
def test_every_bit_survives(workload: str) -> None:
    others = [name for name in load_card(workload).frameworks if name != "torch"]
    missing = [name for name in others if frameworks().load(name).installed_version() is None]
    if missing or not others:
        pytest.skip(f"needs {', '.join(missing) or 'a second framework'}")
    first = pass_through(workload, "torch", None)
    assert not any(name.endswith("num_batches_tracked") for name in first)
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal(array.shape, dtype=np.float32) for name, array in first.items()}
    for framework in (*others, "torch"):
        found = pass_through(workload, framework, weights)
        assert {name: array.shape for name, array in found.items()} == {n: a.shape for n, a in weights.items()}
        for name, array in weights.items():
            assert np.ascontiguousarray(found[name]).tobytes() == array.tobytes(), f"{framework}: {name}"


@pytest.mark.parametrize("framework", ["torch", "paddle", "jax"])
def test_a_missing_and_an_extra_tensor_are_named(framework: str) -> None:
    if frameworks().load(framework).installed_version() is None or framework not in load_card("resnet50").frameworks:
        pytest.skip(f"ResNet-50 in {framework} is not there")
    weights = pass_through("resnet50", "torch", None)
    weights["fc.scale"] = weights.pop("fc.bias")
    with pytest.raises(WeightsError, match=r"missing: fc\.bias; not in the model: fc\.scale"):
        pass_through("resnet50", framework, weights)
