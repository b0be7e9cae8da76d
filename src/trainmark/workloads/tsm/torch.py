"""TSM-ResNet50 in PyTorch: torchvision's ResNet-50 over all frames, with the temporal shift in its residual blocks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models.resnet import Bottleneck, ResNet

from trainmark.workloads.card import ImageSize
from trainmark.workloads.loss import total_loss
from trainmark.workloads.optimisations import network_optimisations
from trainmark.workloads.torch import Examined, ParameterGroup, at_least_float32, count_correct, normalise
from trainmark.workloads.torch_norm import speed_up_norms
from trainmark.workloads.torch_residual import PartedResNet
from trainmark.workloads.torch_stem import speed_up_pool, speed_up_stem
from trainmark.workloads.tsm.card import CARD, DROPOUT
from trainmark.workloads.tsm.data import MEAN, STD
from trainmark.workloads.tsm.torch_shift import ShiftedBottleneck, set_num_frames, speed_up_shifts

Batch = dict[str, Tensor]
"""`frames` and `labels`; in a parity check also `dropout_keys`, clips x frames x features."""

_LAYERS = (3, 4, 6, 3)


class Tsm(ResNet):  # type: ignore[misc]
    """Parameter names are those of torchvision's ResNet-50, with and without the shift."""

    def __init__(
        self, *, num_classes: int, num_frames: int, is_shifted: bool, layers: tuple[int, ...] = _LAYERS
    ) -> None:
        super().__init__(ShiftedBottleneck if is_shifted else Bottleneck, list(layers), num_classes=num_classes)
        set_num_frames(self, num_frames)
        self.num_frames = num_frames
        self.dropout = KeyedDropout(DROPOUT)
        nn.init.normal_(self.fc.weight, std=0.001)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x: Tensor, dropout_keys: Tensor | None = None) -> Tensor:
        """(clips x frames) x 3 x height x width to clips x classes: the mean of the frames' logits."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.classify(self.avgpool(x).flatten(1), dropout_keys)

    def classify(self, features: Tensor, dropout_keys: Tensor | None = None) -> Tensor:
        logits: Tensor = self.fc(self.dropout(features, dropout_keys))
        return at_least_float32(logits.unflatten(0, (-1, self.num_frames))).mean(1)


class KeyedDropout(nn.Dropout):
    """PyTorch's own, unless the choice is handed in as a number from 0 to 1 for each value, as a parity check does."""

    def forward(self, input: Tensor, keys: Tensor | None = None) -> Tensor:  # noqa: A002 - the name of the base class
        if keys is None or not self.training:
            return super().forward(input)
        return torch.where(keys >= self.p, input / (1 - self.p), 0)


class PartedTsm(Tsm):
    forward: Any = PartedResNet.forward


def build_model(
    *, recipe: str, device_type: str, num_classes: int, size: ImageSize, without: Collection[str] = ()
) -> nn.Module:
    """`unshifted` is the control: the same network, which cannot see the order of the frames."""
    uses = network_optimisations("tsm", device_type, without=without) if recipe == "fast" else frozenset()
    kind = PartedTsm if "shared_blocks" in uses else Tsm
    model = kind(num_classes=num_classes, num_frames=size.num_frames, is_shifted=recipe != "unshifted")
    if "fused_shift" in uses:
        speed_up_shifts(model)
    if "block_stem" in uses:
        speed_up_stem(model)
    if "gathering_pool" in uses:
        speed_up_pool(model)
    if "sum_norms" in uses:
        speed_up_norms(model, uses)
    return model


def parameter_groups(model: nn.Module) -> list[ParameterGroup]:
    """Biases learn twice as fast as weights, the classifier five times; neither biases nor BatchNorm are decayed."""
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    classifiers = [m for m in model.modules() if isinstance(m, nn.Linear)]
    decay = CARD.optimizer.weight_decay
    groups = [
        ParameterGroup(params=[m.weight for m in convolutions], weight_decay=decay),
        ParameterGroup(params=[m.bias for m in convolutions if m.bias is not None], weight_decay=0.0, lr_scale=2.0),
        ParameterGroup(params=[p for m in norms for p in m.parameters()], weight_decay=0.0),
        ParameterGroup(params=[m.weight for m in classifiers], weight_decay=decay, lr_scale=5.0),
        ParameterGroup(params=[m.bias for m in classifiers], weight_decay=0.0, lr_scale=10.0),
    ]
    return [group for group in groups if group.params]  # ResNet's convolutions have no biases


def examine(model: nn.Module, batch: Batch) -> Examined:
    logits = _logits(model, batch)
    return {"logits": logits}, {"cross_entropy": functional.cross_entropy(logits, batch["labels"])}


def compute_loss(model: nn.Module, batch: Batch) -> Tensor:
    return total_loss(examine(model, batch)[1])


def score(model: nn.Module, batch: Batch) -> Tensor:
    return count_correct(_logits(model, batch), batch["labels"])


def _logits(model: nn.Module, batch: Batch) -> Tensor:
    frames = normalise(batch["frames"].flatten(0, 1), MEAN, STD)
    keys = batch.get("dropout_keys")
    logits: Tensor = model(frames) if keys is None else model(frames, keys.flatten(0, 1))
    return logits


def synthetic_batch(*, batch_size: int, size: ImageSize, num_classes: int, generator: torch.Generator) -> Batch:
    """Noise as bytes, and labels that are equally frequent, as they nearly are in Kinetics."""
    device = generator.device
    shape = (batch_size, size.num_frames, size.height, size.width, 3)
    frames = torch.randint(0, 256, shape, generator=generator, device=device, dtype=torch.uint8)
    labels = torch.randint(0, num_classes, (batch_size,), generator=generator, device=device)
    return {"frames": frames, "labels": labels}
