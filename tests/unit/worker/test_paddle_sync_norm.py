"""BatchNorm over all processes in Paddle: its statistics and weights, in and out. The kernel, which needs a GPU, is
replaced by one that sees its own batch as that of every process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

from trainmark.worker.paddle.ranks import sync_batch_norms  # noqa: E402
from trainmark.worker.paddle.weights import export_weights, import_weights  # noqa: E402
from trainmark.workloads.paddle_layers import BatchNorm2D, batch_norms, convolution  # noqa: E402

NUM_RANKS = 3


def build() -> Any:
    paddle.seed(1)
    return paddle.nn.Sequential(convolution(3, 4, 3), BatchNorm2D(4))


def build_synced(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(paddle._C_ops, "sync_batch_norm_", normalise_alone)
    model = build()
    sync_batch_norms(model, num_ranks=NUM_RANKS)
    return model


def normalise_alone(
    x: Any, mean: Any, variance: Any, weight: Any, bias: Any, is_test: bool, momentum: float, *rest: Any
) -> tuple[Any, ...]:
    """Leaves its statistics in `mean` and `variance`, as the kernel does."""
    epsilon, *layout = rest
    assert (is_test, momentum, layout) == (False, 0.0, ["NCHW", False, False])
    paddle.assign(x.mean(axis=[0, 2, 3]), output=mean)
    paddle.assign(x.var(axis=[0, 2, 3], unbiased=False), output=variance)
    centre, spread, factor, shift = (part.reshape([1, -1, 1, 1]) for part in (mean, variance, weight, bias))
    return ((x - centre) / (spread + epsilon).sqrt() * factor + shift, None, None, None, None, None)


def test_weights_have_the_names_of_a_plain_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, synced = build(), build_synced(monkeypatch)
    assert list(synced.state_dict()) == list(plain.state_dict())
    given = {name: array + 1 for name, array in export_weights(plain).items()}
    import_weights(synced, given)
    found = export_weights(synced)
    assert found.keys() == given.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, given[name])
    assert len(list(batch_norms(synced))) == 1, "who treats their weights differently must find them"


def test_what_is_exported_are_the_running_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    synced = build_synced(monkeypatch)
    images = paddle.randn([2, 3, 5, 5])
    before = synced[0](images)
    synced(images)
    mean, biased = before.mean(axis=[0, 2, 3]).numpy(), before.var(axis=[0, 2, 3], unbiased=False).numpy()
    count = NUM_RANKS * 2 * 5 * 5
    found = export_weights(synced)
    np.testing.assert_allclose(found["1.running_mean"], 0.1 * mean, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found["1.running_var"], 0.9 + 0.1 * biased * count / (count - 1), rtol=1e-5)
    synced.eval()
    expected = (before.numpy() - found["1.running_mean"].reshape(1, 4, 1, 1)) / np.sqrt(
        found["1.running_var"].reshape(1, 4, 1, 1) + 1e-5
    )
    np.testing.assert_allclose(synced(images).numpy(), expected, rtol=1e-4, atol=1e-5)
