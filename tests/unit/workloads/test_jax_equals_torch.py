"""Each workload in JAX is the PyTorch reference: float64, training mode, two steps, on smaller networks."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "worker"))
from small_jax import jax

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402
from torchvision.models.resnet import ResNet  # noqa: E402

from trainmark.worker.jax import probe as jax_probe  # noqa: E402
from trainmark.worker.probe import ProbeRequest, ProbeResult  # noqa: E402
from trainmark.worker.torch import probe as torch_probe  # noqa: E402
from trainmark.workloads import jax_resnet  # noqa: E402
from trainmark.workloads.hrnet_w18 import jax_network, torch_network  # noqa: E402
from trainmark.workloads.jax_pool import max_pool  # noqa: E402
from trainmark.workloads.jax_resize import resize  # noqa: E402
from trainmark.workloads.psenet import jax_loss, torch_loss, torch_model  # noqa: E402
from trainmark.workloads.registry import load_card, load_module  # noqa: E402
from trainmark.workloads.resnet50 import torch as torch_resnet50  # noqa: E402
from trainmark.workloads.tsm import torch as torch_tsm  # noqa: E402

pytestmark = pytest.mark.jax
_CASES = [
    ("resnet50", "fast", 64, 64),
    ("tsm", "reference", 32, 32),
    ("hrnet_w18", "reference", 32, 64),
    ("psenet", "reference", 64, 64),
]


def shrink(patch: pytest.MonkeyPatch) -> None:
    """One block where there are several."""
    patch.setattr(torch_resnet50, "_LAYERS", [1, 1, 1, 1])
    patch.setitem(torch_tsm.Tsm.__init__.__kwdefaults__, "layers", (1, 1, 1, 1))
    patch.setattr(torch_model, "ResNet", lambda block, _: ResNet(block, [1, 1, 1, 1]))
    patch.setattr(jax_resnet, "NUM_BLOCKS", (1, 1, 1, 1))
    for module in (torch_network, jax_network):
        patch.setattr(module, "_NUM_MODULES", {2: 1, 3: 1, 4: 1})
        patch.setattr(module, "_BLOCKS_PER_BRANCH", 1)


def difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    assert set(one) == set(other)
    tiny = 1e-30  # some biases are zero at first
    return max(float(np.abs(one[name] - value).max() / (np.abs(value).max() + tiny)) for name, value in other.items())


@pytest.mark.parametrize(("workload", "recipe", "height", "width"), _CASES)
def test_two_steps_are_the_same(
    workload: str, recipe: str, height: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch)
    if workload == "psenet":  # its first stage is not the backbone's own
        monkeypatch.setattr(jax_resnet, "NUM_BLOCKS", (3, 1, 1, 1))
    card = load_card(workload)
    size = replace(card.sizes["small"], height=height, width=width)  # type: ignore[call-arg]
    make_batch = load_module(workload, "synthetic").make_batch
    rng = np.random.default_rng(0)
    batch = make_batch(rng, batch_size=2, size=size, num_classes=5, fixes_choices=True)
    request = ProbeRequest(
        workload=workload, framework="torch", recipe="reference", precision="fp64", size="small", device="cpu",
        num_classes=5, seed=0, weights=None, batches=[batch], rates=(0.01, 0.02), keep_weights_after=(0, 2),
    )  # fmt: skip
    reference: ProbeResult = torch_probe.run_probe(request)
    found = jax_probe.run_probe(replace(request, framework="jax", recipe=recipe, weights=reference.weights[0]))
    assert difference(dict(found.weights[0]), dict(reference.weights[0])) == 0
    assert difference(dict(found.outputs), dict(reference.outputs)) < 1e-9
    assert difference(dict(found.terms), dict(reference.terms)) < 1e-9
    assert difference(dict(found.gradients), dict(reference.gradients)) < 1e-9
    assert difference(dict(found.weights[2]), dict(reference.weights[2])) < 1e-8, "two steps amplify rounding"
    same = ("num_parameters", "forward_flops", "gradient_bytes", "optimizer_steps", "tf32")
    assert {name: found.facts[name] for name in same} == {name: reference.facts[name] for name in same}


@pytest.mark.parametrize("size", [(9, 14), (8, 28), (5, 21), (16, 7)])
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_bilinear_resizing(size: tuple[int, int], backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of computing it."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    x = np.random.default_rng(0).standard_normal((2, 4, 7, 3)).astype(np.float32)
    found = np.asarray(resize(jax.numpy.asarray(x), size))
    planes = torch.from_numpy(x).permute(0, 3, 1, 2)
    expected = functional.interpolate(planes, size=size, mode="bilinear", align_corners=False).permute(0, 2, 3, 1)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(8, 6), (7, 5)])
def test_max_pool_and_its_gradient(height: int, width: int) -> None:
    """With many equal values: the first one wins."""
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (2, height, width, 3)).astype(np.float32)
    planes = torch.from_numpy(x).permute(0, 3, 1, 2).requires_grad_()
    pooled = functional.max_pool2d(planes, 3, stride=2, padding=1)
    factors = rng.standard_normal(pooled.shape).astype(np.float32)
    (pooled * torch.from_numpy(factors)).sum().backward()
    found, pull = jax.vjp(max_pool, jax.numpy.asarray(x))
    np.testing.assert_array_equal(np.asarray(found), pooled.detach().permute(0, 2, 3, 1).numpy())
    (gradient,) = pull(jax.numpy.asarray(factors.transpose(0, 2, 3, 1)))
    assert planes.grad is not None
    np.testing.assert_allclose(np.asarray(gradient), planes.grad.permute(0, 2, 3, 1).numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_hard_negatives_are_found_by_counting(kind: type) -> None:
    """In the precision of a training and in that of the parity check, with ties, zeros and excluded pixels."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((6, 200)).astype(kind)
    values[1, 50:] = -np.inf
    values[2] = np.round(values[2])
    values[3] = np.where(values[3] > 0, 0, values[3])
    values[4] = rng.choice([-0.0, 0.0, np.finfo(kind).tiny, -np.finfo(kind).tiny], 200)
    values[5] *= np.finfo(kind).max / 8
    ranks = np.array([1, 30, 77, 200, 90, 3])
    with jax.enable_x64(kind is np.float64):
        found = np.asarray(jax_loss.find_nth_largest(jax.numpy.asarray(values), jax.numpy.asarray(ranks)))
    assert found.dtype == kind
    expected = torch_loss.sort_nth_largest(torch.from_numpy(values), torch.from_numpy(ranks)).numpy()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_no_precision_chooses_hard_negatives_in_another_way(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    find = jax_loss.find_nth_largest

    def find_and_note(values: Any, rank: Any) -> Any:
        found.append(values.dtype)
        return find(values, rank)

    monkeypatch.setattr(jax_loss, "find_nth_largest", find_and_note)
    rng = np.random.default_rng(0)
    logits, text = rng.standard_normal((2, 8, 8)).astype(kind), rng.random((2, 8, 8)) < 0.1
    with jax.enable_x64(kind is np.float64):
        chosen = jax_loss.choose_pixels(*map(jax.numpy.asarray, (logits, text, np.ones_like(text))))
    expected = torch_loss.choose_pixels(*map(torch.from_numpy, (logits, text, np.ones_like(text))))
    np.testing.assert_array_equal(np.asarray(chosen), expected.numpy())
    assert found == [kind]
