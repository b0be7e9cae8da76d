"""The temporal shift: some channels of every frame come from its neighbours in time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torchvision.models.resnet import Bottleneck

SHARE = 8
"""One channel in eight comes from the next frame, another one in eight from the previous frame."""


def temporal_shift(frames: Tensor, num_frames: int) -> Tensor:
    """(clips x frames) x channels x height x width; the memory layout does not change."""
    shifted: Tensor = _Shift.apply(frames, num_frames)
    return shifted


class _Shift(torch.autograd.Function):
    """A function of its own, because autograd's version of the slices costs several passes over the whole tensor.

    Both directions are three copies and two small fills. The gradient of a shift is the opposite shift.
    """

    @staticmethod
    def forward(ctx: Any, frames: Tensor, num_frames: int) -> Tensor:
        ctx.num_frames = num_frames
        return _shifted(frames, num_frames, backwards=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _shifted(gradient, ctx.num_frames, backwards=True), None


def _shifted(frames: Tensor, num_frames: int, *, backwards: bool) -> Tensor:
    result = torch.empty_like(frames)
    fold = frames.shape[1] // SHARE
    source = frames.unflatten(0, (-1, num_frames))
    target = result.unflatten(0, (-1, num_frames))
    ahead, behind = slice(0, fold), slice(fold, 2 * fold)
    if backwards:
        ahead, behind = behind, ahead
    target[:, :-1, ahead] = source[:, 1:, ahead]
    target[:, -1, ahead] = 0
    target[:, 1:, behind] = source[:, :-1, behind]
    target[:, 0, behind] = 0
    target[:, :, 2 * fold :] = source[:, :, 2 * fold :]
    return result


class ShiftedConv2d(nn.Conv2d):
    """A convolution after the shift; its weights have the names of a plain convolution."""

    num_frames: int

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the base class
        return super().forward(temporal_shift(input, self.num_frames))


class ShiftedBottleneck(Bottleneck):  # type: ignore[misc]
    """The shift comes before conv1, inside the residual branch, so that the identity path keeps the frame."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        plain: nn.Conv2d = self.conv1  # type: ignore[has-type]
        self.conv1 = ShiftedConv2d(plain.in_channels, plain.out_channels, kernel_size=1, bias=False)


def set_num_frames(model: nn.Module, num_frames: int) -> None:
    for module in model.modules():
        if isinstance(module, ShiftedConv2d):
            module.num_frames = num_frames
