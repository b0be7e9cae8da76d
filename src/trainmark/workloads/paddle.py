"""What several workloads share in Paddle: pixels, losses and counts, exact in every precision including float64.

Some of Paddle's own functions keep their constants in float32 (label smoothing, bilinear scales); in float64 they
differ from other frameworks by 1e-8. Where that is so there is a function of our own here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import paddle
from paddle import Tensor
from paddle.nn import functional

from trainmark.workloads.linear_resize import linear_weights

Examined = tuple[dict[str, Tensor], dict[str, Tensor]]
"""What the network gives and the terms of the loss, by names that are the same in all frameworks."""


@dataclass(frozen=True, kw_only=True)
class ParameterGroup:
    """Parameters with the same weight decay and learning rate."""

    params: Sequence[Tensor]
    weight_decay: float
    lr_scale: float = 1.0
    """Their learning rate, relative to the schedule's."""


def at_least_float(x: Tensor) -> Tensor:
    """float32 for half precision; float32 and float64 stay."""
    return x if x.dtype in (paddle.float32, paddle.float64) else x.astype(paddle.float32)


def sum_pixels(x: Tensor) -> Tensor:
    """Over the last two dimensions, row by row: Paddle adds one pixel after the other, wrong by 9e-7 in float32."""
    rows: Tensor = x.sum(axis=-1)
    return rows.sum(axis=-1)


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Bytes (... x height x width x 3) to (... x 3 x height x width) of Paddle's default type.

    `mean` and `std` are for values 0 to 1. Done on the device because bytes are a quarter of the size to copy there.
    """
    dtype = paddle.get_default_dtype()
    scale = paddle.to_tensor([1 / (255 * part) for part in std], dtype=dtype)
    shift = paddle.to_tensor([-centre / part for centre, part in zip(mean, std, strict=True)], dtype=dtype)
    planes = images.astype(dtype) * scale + shift
    rank = planes.ndim
    return planes.transpose([*range(rank - 3), rank - 1, rank - 3, rank - 2])


def cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float) -> Tensor:
    """Mean over the samples, as the others define it: smoothing spreads over all classes, the true one too.

    Only for smoothed labels: Paddle's own is more exact for others (see TSM).

    Not by `log_softmax`: its gradient adds up the gradients of all classes one by one in float32, and the equal ones of
    smoothing are rounded in the same direction each time. With 1,000 classes that is an error of 1.6e-5.
    """
    scores = at_least_float(logits)
    own = scores.take_along_axis(targets.unsqueeze(1), axis=1).squeeze(1)
    wanted = (1 - smoothing) * own + smoothing * scores.mean(axis=1)
    return (paddle.logsumexp(scores, axis=1) - wanted).mean()


def count_correct(logits: Tensor, targets: Tensor) -> Tensor:
    """Samples, top-1 hits and top-5 hits, as `trainmark.workloads.metric` expects them."""
    best = at_least_float(logits).topk(min(5, logits.shape[1]), axis=1)[1]
    hits = (best == targets.unsqueeze(1)).astype(paddle.float64)
    num_samples = paddle.full([], targets.shape[0], dtype=paddle.float64)
    return paddle.stack([num_samples, hits[:, 0].sum(), hits.sum()])


def resize(x: Tensor, size: Sequence[int]) -> Tensor:
    """Bilinear, `align_corners` off, of n x c x height x width."""
    height, width = int(size[0]), int(size[1])
    if [height, width] == x.shape[2:]:
        return x
    ratios = [height / x.shape[2], width / x.shape[3]]
    if all(ratio.is_integer() and _is_power_of_2(int(ratio)) for ratio in ratios):
        return functional.interpolate(x, size=[height, width], mode="bilinear", align_corners=False)
    # Paddle's kernel keeps the scale in float32, which shows in float64 unless the scale is a power of 2.
    down = paddle.to_tensor(linear_weights(x.shape[2], height)).astype(x.dtype)
    across = paddle.to_tensor(linear_weights(x.shape[3], width)).astype(x.dtype)
    return paddle.matmul(paddle.matmul(down, x), across, transpose_y=True)


def _is_power_of_2(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0
