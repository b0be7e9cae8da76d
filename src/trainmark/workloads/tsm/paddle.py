"""TSM-ResNet50 in Paddle: ResNet-50 over all frames, with the temporal shift in its residual blocks."""

from __future__ import annotations

import paddle
from paddle import Tensor, nn
from paddle.nn import functional

from trainmark.workloads.card import ImageSize
from trainmark.workloads.loss import total_loss
from trainmark.workloads.paddle import Examined, ParameterGroup, at_least_float, count_correct, normalise
from trainmark.workloads.paddle_layers import batch_norms, fill_normal
from trainmark.workloads.paddle_resnet import LAYERS, Bottleneck, ResNet
from trainmark.workloads.tsm.card import CARD, DROPOUT, NUM_FRAMES
from trainmark.workloads.tsm.data import MEAN, STD

Batch = dict[str, Tensor]
"""`frames` and `labels`; in a parity check also `dropout_keys`, clips x frames x features."""

_SHARE = 8
"""One channel in eight comes from the next frame, another one in eight from the previous frame."""


def temporal_shift(frames: Tensor, num_frames: int) -> Tensor:
    """(clips x frames) x channels x height x width. Paddle's own function shifts in the other direction."""
    _, channels, height, width = frames.shape
    fold = channels // _SHARE
    clips = frames.reshape([-1, num_frames, channels, height, width])
    nothing = paddle.zeros([clips.shape[0], 1, fold, height, width], dtype=frames.dtype)
    from_next = paddle.concat([clips[:, 1:, :fold], nothing], axis=1)
    from_previous = paddle.concat([nothing, clips[:, :-1, fold : 2 * fold]], axis=1)
    shifted = paddle.concat([from_next, from_previous, clips[:, :, 2 * fold :]], axis=2)
    return shifted.reshape([-1, channels, height, width])


class ShiftedBottleneck(Bottleneck):
    """The shift comes before conv1, inside the residual branch, so that the identity path keeps the frame."""

    def enter(self, x: Tensor) -> Tensor:
        return temporal_shift(x, NUM_FRAMES)


class Tsm(ResNet):
    def __init__(self, *, num_classes: int, is_shifted: bool, layers: tuple[int, ...] = LAYERS) -> None:
        super().__init__(num_classes=num_classes, block=ShiftedBottleneck if is_shifted else Bottleneck, layers=layers)
        fill_normal(self.fc.weight, 0.001)
        self.fc.bias.set_value(paddle.zeros_like(self.fc.bias))

    def forward(self, frames: Tensor, dropout_keys: Tensor | None = None) -> Tensor:
        """(clips x frames) x 3 x height x width to clips x classes: the mean of the frames' logits."""
        logits = self.fc(self._drop(self.features(frames), dropout_keys))
        return at_least_float(logits).reshape([-1, NUM_FRAMES, logits.shape[1]]).mean(axis=1)

    def _drop(self, features: Tensor, keys: Tensor | None) -> Tensor:
        """Paddle's own choice, unless it is handed in as a number from 0 to 1 for each value, as in a parity check."""
        if keys is None or not self.training:
            return functional.dropout(features, DROPOUT, training=self.training)
        return paddle.where(keys >= DROPOUT, features / (1 - DROPOUT), paddle.zeros_like(features))


def build_model(*, recipe: str, device_type: str, num_classes: int, size: ImageSize) -> nn.Layer:  # noqa: ARG001 - for any
    """`unshifted` is the control: the same network, which cannot see the order of the frames."""
    return Tsm(num_classes=num_classes, is_shifted=recipe != "unshifted")


def parameter_groups(model: nn.Layer) -> list[ParameterGroup]:
    """The classifier learns five times as fast, its bias ten times; neither biases nor BatchNorm are decayed."""
    layers = model.sublayers(include_self=True)
    convolutions = [layer.weight for layer in layers if isinstance(layer, nn.Conv2D)]
    norms = [parameter for norm in batch_norms(model) for parameter in norm.parameters()]
    classifiers = [layer for layer in layers if isinstance(layer, nn.Linear)]
    decay = CARD.optimizer.weight_decay
    return [
        ParameterGroup(params=convolutions, weight_decay=decay),
        ParameterGroup(params=norms, weight_decay=0.0),
        ParameterGroup(params=[layer.weight for layer in classifiers], weight_decay=decay, lr_scale=5.0),
        ParameterGroup(params=[layer.bias for layer in classifiers], weight_decay=0.0, lr_scale=10.0),
    ]


def compute_loss(model: nn.Layer, batch: Batch) -> Tensor:
    return total_loss(examine(model, batch)[1])


def examine(model: nn.Layer, batch: Batch) -> Examined:
    """Paddle's own loss, not ours for smoothed labels, which is by `logsumexp`.

    `logsumexp` adds one class after the other in float32, and next to a large one the others are lost. Once TSM has
    learnt its clips, that makes a gradient ten times as wrong as PyTorch's.
    """
    logits = _logits(model, batch)
    return {"logits": logits}, {"cross_entropy": functional.cross_entropy(logits, batch["labels"])}


def score(model: nn.Layer, batch: Batch) -> Tensor:
    return count_correct(_logits(model, batch), batch["labels"])


def _logits(model: nn.Layer, batch: Batch) -> Tensor:
    frames = normalise(batch["frames"].flatten(0, 1), MEAN, STD)
    keys = batch.get("dropout_keys")
    return model(frames) if keys is None else model(frames, keys.flatten(0, 1))
