"""Convolutions with Paddle's `same` padding: an odd number of zeros has the extra one after the picture, not before."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class SameConv2d(nn.Conv2d):
    """With a stride, the output has the input's size over the stride, rounded up.

    A 3x3 of stride 2 on an even side adds one zero after it and none before, so it sees the pixels 2i to 2i + 2;
    with the usual padding of 1 it would see 2i - 1 to 2i + 1. On an odd side both are the same.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the base class
        padded, padding = pad_input(self, input)
        return functional.conv2d(padded, self.weight, self.bias, self.stride, padding)


def pad_input(convolution: nn.Conv2d, x: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """The input and the padding to give to `conv2d` with it: only uneven padding costs a copy."""
    if not isinstance(convolution, SameConv2d):
        assert isinstance(convolution.padding, tuple)
        return x, (convolution.padding[0], convolution.padding[1])
    height, width = (
        max(0, (-(-size // stride) - 1) * stride + kernel - size)
        for size, kernel, stride in zip(x.shape[-2:], convolution.kernel_size, convolution.stride, strict=True)
    )
    if height % 2 == 0 and width % 2 == 0:
        return x, (height // 2, width // 2)
    return functional.pad(x, (width // 2, width - width // 2, height // 2, height - height // 2)), (0, 0)
