"""The loss of TSM in Paddle stays exact when the network has learnt its clips."""

from __future__ import annotations

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

from trainmark.workloads.tsm import paddle as workload  # noqa: E402
from trainmark.workloads.tsm.card import CARD, NUM_FRAMES  # noqa: E402


class Fixed(paddle.nn.Layer):
    """Gives the same logits for any clip."""

    def __init__(self, logits: np.ndarray) -> None:
        super().__init__()
        self.logits = paddle.to_tensor(logits, stop_gradient=False)

    def forward(self, frames: paddle.Tensor) -> paddle.Tensor:
        return self.logits


def test_a_clip_that_is_known_well_still_has_the_gradient_of_all_classes() -> None:
    """Each of the 399 others adds 3.1e-7, which a float32 sum that is already 1 rounds to 3.6e-7."""
    logits = np.zeros((1, CARD.num_classes), dtype=np.float32)
    logits[0, 0] = 15
    model = Fixed(logits)
    frames = paddle.zeros([1, NUM_FRAMES, 2, 2, 3], dtype=paddle.uint8)
    loss = workload.compute_loss(model, {"frames": frames, "labels": paddle.zeros([1], dtype=paddle.int64)})
    loss.backward()
    exact = np.exp(logits.astype(np.float64))
    exact /= exact.sum()
    assert loss.item() == pytest.approx(-np.log(exact[0, 0]), rel=0.05)  # by logsumexp: 17% more
    exact[0, 0] -= 1
    np.testing.assert_allclose(model.logits.grad.numpy(), exact, rtol=0.05)
