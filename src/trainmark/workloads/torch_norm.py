"""BatchNorm for a compiling GPU: the same function and gradients, statistics in one cheap pass.

The framework's decomposition finds mean and variance by Welford's recurrence; here both come from two plain sums in
fp32. Tried because the compiled reductions ran at about half of the card's copy bandwidth; with it `fast` bf16 gave
7,214 images/s against 6,974 before, in two leases of an H200 and together with one fill of the learning rate instead
of two. The kernels were not profiled again, so that the recurrence was the reason is a guess. The difference of sums
loses digits where a channel's mean is large against its spread; the tests of equal losses are the guard.

Together with the ReLU behind it a norm can also do with fewer passes over memory in its gradient; the count is in
docs/concepts/fast-profile.md.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from trainmark.workloads.torch import to_type

JOINED_CHANNELS = 64
"""The kernel for gradients of two users has programs for as many channels, so a tensor must have a multiple of it."""


def speed_up_norms(model: nn.Module, uses: Collection[str]) -> None:
    """In place; parameters and buffers stay the same objects under the same names."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.BatchNorm2d:
                norm = SumBatchNorm2d.of(child)
                norm.finds_signs = "found_signs" in uses
                norm.joins_gradients = "joined_gradients" in uses
                setattr(module, name, norm)


def norm_relu(norm: nn.Module, x: Tensor) -> Tensor:
    if isinstance(norm, SumBatchNorm2d) and norm.finds_signs and norm.training:
        return norm.forward_with_relu(x)
    return functional.relu(norm(x))


def norm_add_relu(norm: nn.Module, x: Tensor, shortcut: Tensor) -> tuple[Tensor, Tensor]:
    """The result under two names, for two users."""
    if isinstance(norm, SumBatchNorm2d) and norm.joins_gradients and norm.training:
        return norm.forward_with_shortcut(x, shortcut)
    out = functional.relu(norm(x) + shortcut)
    return out, out


class SumBatchNorm2d(nn.BatchNorm2d):
    finds_signs = False
    joins_gradients = False

    @classmethod
    def of(cls, norm: nn.BatchNorm2d) -> SumBatchNorm2d:
        twin = cls(norm.num_features, eps=norm.eps, momentum=norm.momentum)
        twin.weight, twin.bias = norm.weight, norm.bias
        twin.running_mean, twin.running_var = norm.running_mean, norm.running_var
        twin.num_batches_tracked = norm.num_batches_tracked
        return twin.train(norm.training)

    def forward(self, x: Tensor) -> Tensor:
        """`x` may have more channels than the norm, as `torch_padding` adds them: they are zero and stay zero."""
        extra = x.shape[1] - self.num_features
        if not self.training:
            return functional.pad(super().forward(x[:, : self.num_features]), (0, 0, 0, 0, 0, extra))
        wide, scale, shift = self._as_scale(x)
        return (wide * scale + shift).to(x.dtype)

    def forward_with_relu(self, x: Tensor) -> Tensor:
        """ReLU's gradient finds the sign of its input again from `x`, which BatchNorm's gradient reads anyway.

        By itself it would read ReLU's output too, in both of its passes.
        """
        y: Tensor = _ScaleRelu.apply(*self._as_scale(x))
        return y.to(x.dtype)

    def forward_with_shortcut(self, x: Tensor, shortcut: Tensor) -> tuple[Tensor, Tensor]:
        """BatchNorm, sum and ReLU, under two names: so the gradients of two users arrive one by one.

        One kernel adds them, stops what ReLU stops, and makes the sums for BatchNorm's gradient.
        """
        wide, scale, shift = self._as_scale(x)
        both: tuple[Tensor, Tensor] = _ScaleAddRelu.apply(wide, x.detach(), scale, shift, shortcut)
        return both

    def _as_scale(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`x` in at least fp32, and what to multiply it by and to add."""
        extra = x.shape[1] - self.num_features
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = wide.mean((0, 2, 3))
        variance = ((wide * wide).mean((0, 2, 3)) - mean * mean).clamp_min(0)
        kept = slice(0, self.num_features)
        self._track(mean.detach()[kept], variance.detach()[kept], x.numel() // x.shape[1])
        scale = functional.pad(self.weight, (0, extra)) * torch.rsqrt(variance + self.eps)
        shift = functional.pad(self.bias, (0, extra)) - mean * scale
        return wide, scale[:, None, None], shift[:, None, None]

    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.momentum is not None
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance * (count / max(count - 1, 1)), self.momentum)


class _ScaleRelu(torch.autograd.Function):
    """`relu(x * scale + shift)`, whose gradient computes the sign again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        ctx.save_for_backward(x, scale, shift)
        return functional.relu(x * scale + shift)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, scale, shift = ctx.saved_tensors
        passed = torch.where(x * scale + shift > 0, gradient, 0)
        return passed * scale, _sum_pixels(passed * x), _sum_pixels(passed)


class _ScaleAddRelu(torch.autograd.Function):
    """`relu(x * scale + shift + shortcut)` under two names. `wide` is `x`, in at least fp32, and gets its gradient."""

    @staticmethod
    def forward(
        ctx: Any, wide: Tensor, x: Tensor, scale: Tensor, shift: Tensor, shortcut: Tensor
    ) -> tuple[Tensor, Tensor]:
        out = to_type(functional.relu(wide * scale + shift + shortcut), x.dtype)
        ctx.save_for_backward(x, scale, out)
        return out, out.view_as(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, one: Tensor, other: Tensor) -> tuple[Tensor, None, Tensor, Tensor, Tensor]:
        x, scale, out = ctx.saved_tensors
        passed, total, weighted = _join_gradients(one, other, out, x)
        return passed * scale, None, weighted, total, passed


def _join_gradients(one: Tensor, other: Tensor, out: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What ReLU passes of the sum of two gradients, its sum over pixels, and that of its product with `x`."""
    if not out.is_cuda or out.dtype == torch.float64 or out.shape[1] % JOINED_CHANNELS:
        passed = torch.where(out > 0, one + other, 0)
        wide = passed.to(torch.promote_types(x.dtype, torch.float32))
        return passed, _sum_pixels(wide), _sum_pixels(wide * x)
    from trainmark.workloads.torch_join_kernel import join_gradients

    layout = torch.channels_last
    passed, parts = join_gradients(*(tensor.contiguous(memory_format=layout) for tensor in (one, other, out, x)))
    total, weighted = parts.sum(1)[:, :, None, None]
    return passed, total, weighted


def _sum_pixels(x: Tensor) -> Tensor:
    return x.sum((0, 2, 3))[:, None, None]
