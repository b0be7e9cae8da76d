"""Gradients are clipped to the norm that is asked for, however many there are."""

from __future__ import annotations

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

from trainmark.worker.paddle.optimizer import clip_by_norm  # noqa: E402


@pytest.mark.parametrize(("limit", "factor"), [(20.0, None), (1e6, 1.0)], ids=["clipped", "small enough"])
def test_two_million_gradients_are_clipped_to_the_last_digits(limit: float, factor: float | None) -> None:
    rng = np.random.default_rng(0)
    parameters = [paddle.create_parameter(shape, "float32") for shape in ([512, 512, 3, 3], [7])]
    gradients = [rng.normal(size=parameter.shape).astype(np.float32) for parameter in parameters]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        (parameter * paddle.to_tensor(gradient)).sum().backward()
    unused = paddle.create_parameter([3], "float32")
    clip_by_norm([*parameters, unused], limit)
    norm = np.sqrt(sum(np.square(gradient.astype(np.float64)).sum() for gradient in gradients))
    expected = limit / norm if factor is None else factor
    for parameter, gradient in zip(parameters, gradients, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), gradient * expected, rtol=3e-7)
