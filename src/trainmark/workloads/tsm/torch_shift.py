"""The temporal shift: some channels of every frame come from its neighbours in time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
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
    target[:, -1, ahead].zero_()  # PyTorch 2.11 compiles `= 0` to a copy from the host, which a graph cannot capture
    target[:, 1:, behind] = source[:, :-1, behind]
    target[:, 0, behind].zero_()
    target[:, :, 2 * fold :] = source[:, :, 2 * fold :]
    return result


def shift_for_compiler(frames: Tensor, num_frames: int) -> Tensor:
    """The same function without writes in place, so that the compiler can join it with its neighbours.

    Forward is written by the kernel that makes its input, the gradient is read by the kernel that adds it up. One H200,
    one run: 863 clips/s; as a kernel of its own, with a read and a write in both directions, 828.
    """
    shifted: Tensor = _CompilerShift.apply(frames, num_frames)
    return shifted


class _CompilerShift(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, frames: Tensor, num_frames: int) -> Tensor:
        ctx.num_frames = num_frames
        return _concatenated(frames, num_frames, backwards=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _concatenated(gradient, ctx.num_frames, backwards=True), None


def _concatenated(frames: Tensor, num_frames: int, *, backwards: bool) -> Tensor:
    clips = frames.unflatten(0, (-1, num_frames))
    fold = frames.shape[1] // SHARE
    ahead, behind, kept = clips.split([fold, fold, frames.shape[1] - 2 * fold], dim=2)
    shifts = (_from_previous, _from_next) if backwards else (_from_next, _from_previous)
    return torch.cat([shifts[0](ahead), shifts[1](behind), kept], dim=2).flatten(0, 1)


def _from_next(clips: Tensor) -> Tensor:
    return functional.pad(clips[:, 1:], (0, 0, 0, 0, 0, 0, 0, 1))


def _from_previous(clips: Tensor) -> Tensor:
    return functional.pad(clips[:, :-1], (0, 0, 0, 0, 0, 0, 1, 0))


class ShiftedConv2d(nn.Conv2d):
    """A convolution after the shift; its weights have the names of a plain convolution."""

    num_frames: int
    is_compiled: bool = False

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the base class
        shift = shift_for_compiler if self.is_compiled else temporal_shift
        return super().forward(shift(input, self.num_frames))


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


def speed_up_shifts(model: nn.Module) -> None:
    """In place, for a model that is going to be compiled."""
    for module in model.modules():
        if isinstance(module, ShiftedConv2d):
            module.is_compiled = True
