"""What the `fast` recipes replace is the same function: outputs, gradients and running statistics in float64."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.nn import functional

from trainmark.worker.torch.compiler import has_cpp_compiler
from trainmark.worker.torch.ranks import sync_batch_norms
from trainmark.workloads import torch_norm, torch_resize
from trainmark.workloads.hrnet_w18 import torch as hrnet
from trainmark.workloads.hrnet_w18.card import CARD as HRNET_CARD
from trainmark.workloads.psenet import torch as psenet
from trainmark.workloads.psenet.card import CARD as PSENET_CARD
from trainmark.workloads.psenet.torch_loss import find_nth_largest, sort_nth_largest
from trainmark.workloads.resnet50 import torch as resnet50
from trainmark.workloads.resnet50.card import CARD as RESNET_CARD
from trainmark.workloads.torch_norm import JOINED_CHANNELS, speed_up_norms
from trainmark.workloads.torch_padding import convolve_padded
from trainmark.workloads.torch_same import SameConv2d
from trainmark.workloads.torch_stem import SpaceToDepthConv2d, speed_up_pool, speed_up_stem
from trainmark.workloads.tsm import torch as tsm
from trainmark.workloads.tsm.torch_shift import speed_up_shifts


def build_tsm(recipe: str) -> nn.Module:
    torch.manual_seed(0)
    kind = tsm.PartedTsm if recipe == "fast" else tsm.Tsm
    model = kind(num_classes=5, num_frames=4, is_shifted=True, layers=(2, 3, 1, 1))
    model.dropout.p = 0.0
    if recipe == "fast":
        speed_up_shifts(model)
        speed_up_stem(model)
        speed_up_pool(model)
        speed_up_norms(model, ())
    return model


def build_resnet(recipe: str, without: tuple[str, ...] = ()) -> nn.Module:
    torch.manual_seed(0)
    return resnet50.build_model(
        recipe=recipe, device_type="cuda", num_classes=7, size=RESNET_CARD.sizes["small"], without=without
    )


def build_resnet_joining(recipe: str) -> nn.Module:
    return build_resnet(recipe, ("found_signs",))


def build_resnet_finding(recipe: str) -> nn.Module:
    return build_resnet(recipe, ("joined_gradients",))


def build_psenet(recipe: str) -> nn.Module:
    torch.manual_seed(0)
    return psenet.build_model(recipe=recipe, device_type="cuda", num_classes=1, size=PSENET_CARD.sizes["small"])


def build_hrnet(recipe: str) -> nn.Module:
    torch.manual_seed(0)
    return hrnet.build_model(recipe=recipe, device_type="cuda", num_classes=19, size=HRNET_CARD.sizes["small"])


@pytest.mark.parametrize(
    "build", [build_tsm, build_psenet, build_hrnet, build_resnet, build_resnet_joining, build_resnet_finding]
)
def test_the_network_is_the_same_function(build: Callable[[str], nn.Module]) -> None:
    images = torch.randn(4, 3, 64, 64, dtype=torch.float64)
    reference, fast = build("reference").double().train(), build("fast").double().train()
    wanted, got = reference(images), fast(images)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)
    gradient = torch.randn_like(wanted)
    wanted.backward(gradient)
    got.backward(gradient)
    twins = dict(fast.named_parameters())
    assert list(twins) == [name for name, _ in reference.named_parameters()]
    for name, parameter in reference.named_parameters():
        twin = twins[name].grad
        assert twin is not None
        assert parameter.grad is not None
        assert (twin - parameter.grad).norm() <= 1e-5 * parameter.grad.norm() + 1e-9, name
    left, right = reference.state_dict(), fast.state_dict()
    assert set(left) == set(right)
    for name in left:
        if not name.endswith("num_batches_tracked"):
            torch.testing.assert_close(right[name], left[name], msg=name)
    torch.testing.assert_close(fast.eval()(images), reference.eval()(images), rtol=1e-5, atol=1e-6)


def test_the_fast_hrnet_runs_with_synced_norms() -> None:
    """They do not know of additional channels, so they see the real ones only."""
    images = torch.randn(2, 3, 64, 64)
    plain = build_hrnet("fast").train()
    synced = sync_batch_norms(build_hrnet("fast")).train()
    torch.testing.assert_close(synced(images), plain(images), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(64, 96), (37, 50)])
def test_the_fast_networks_take_any_size(shape: tuple[int, int]) -> None:
    images = torch.randn(2, 3, *shape)
    reference, fast = build_hrnet("reference").eval(), build_hrnet("fast").eval()
    torch.testing.assert_close(fast(images), reference(images), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("is_same", [False, True])
@pytest.mark.parametrize("side", [3, 7])
def test_blocks_of_pixels_give_the_same_convolution(side: int, is_same: bool) -> None:
    kind, padding = (SameConv2d, 0) if is_same else (nn.Conv2d, side // 2)
    plain = kind(3, 10, side, stride=2, padding=padding, bias=False).double()
    images, gradient = torch.randn(2, 3, 12, 16).double(), torch.randn(2, 10, 6, 8).double()
    wanted = plain(images)
    (wanted_gradient,) = torch.autograd.grad(wanted, plain.weight, gradient)
    fast = SpaceToDepthConv2d.of(plain)
    got = fast(images)
    (got_gradient,) = torch.autograd.grad(got, plain.weight, gradient)
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(got_gradient, wanted_gradient)
    for odd in (images[..., 1:], images[:, :, 1:], images[:, :, 1:, 1:]):
        torch.testing.assert_close(fast(odd), plain(odd))
    with pytest.raises(ValueError, match="3x3 or 7x7"):
        SpaceToDepthConv2d.of(nn.Conv2d(3, 10, 5, stride=2, padding=2))


def test_additional_channels_are_zero_and_get_no_gradient() -> None:
    convolution = nn.Conv2d(5 + 8, 6, 3, padding=1)
    first, second = torch.randn(2, 5, 7, 7), torch.randn(2, 8, 7, 7)
    wanted = convolution(torch.cat([first, second], 1))
    padded = torch.cat([functional.pad(first, (0, 0, 0, 0, 0, 3)), second], 1)
    got = convolve_padded(convolution, padded, parts=(5, 8))
    assert got.shape[1] == 8
    torch.testing.assert_close(got[:, :6], wanted)
    assert not got[:, 6:].any()
    got.sum().backward()
    assert convolution.weight.grad is not None
    assert convolution.weight.grad.shape == convolution.weight.shape


def test_the_nth_largest_without_sorting() -> None:
    torch.manual_seed(0)
    values = 20 * torch.randn(8, 999)
    values[0], values[1], values[2, :500], values[3] = 1.0, 0.0, -torch.inf, (values[3] / 10).round()
    values[4], values[5] = values[4] * 1e-30, -values[5].abs()
    rank = torch.tensor([3, 999, 17, 500, 400, 1, 999, 1])
    assert torch.equal(find_nth_largest(values, rank), sort_nth_largest(values, rank))


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A copy of a kernel's module, made while Triton takes kernels for Python."""
    if find_spec("triton") is None:
        pytest.skip("Triton comes with PyTorch for NVIDIA GPUs only")
    monkeypatch.setenv("TRITON_INTERPRET", "1")

    def load(name: str) -> ModuleType:
        path = Path(torch_resize.__file__).with_name(f"{name}.py")
        source = path.read_text().replace("trainmark::", "trainmark_interpreted::")
        module = ModuleType(f"interpreted_{name}")
        exec(compile(source, str(path), "exec"), module.__dict__)
        return module

    return load


@pytest.mark.parametrize(("factor", "channels", "first", "all_channels"), [(2, 5, 0, 5), (4, 8, 3, 16), (8, 3, 2, 5)])
def test_the_gradient_of_a_resize(
    interpreted: Callable[[str], ModuleType], factor: int, channels: int, first: int, all_channels: int
) -> None:
    kernel = interpreted("torch_resize_kernel")
    height, width = 3, 5
    x = torch.randn(2, channels, height, width, requires_grad=True)
    size = (factor * height, factor * width)
    enlarged = functional.interpolate(x, size=size, mode="bilinear", align_corners=False)
    gradient = torch.randn(2, all_channels, *size).contiguous(memory_format=torch.channels_last)
    enlarged.backward(gradient[:, first : first + channels])
    got = torch.full_like(x, float("nan")).contiguous(memory_format=torch.channels_last).detach()
    kernel._shrink_kernel[(-(-got.numel() // 64),)](
        gradient, got, height, width, 2 * height * width, all_channels, first,
        CHANNELS=channels, FACTOR=factor, BLOCK=64,
    )  # fmt: skip
    assert x.grad is not None
    torch.testing.assert_close(got, x.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("factor", "channels", "first", "all_channels"), [(1, 4, 2, 7), (2, 5, 0, 5), (8, 3, 2, 5)])
def test_an_enlargement_is_written_between_other_channels(
    interpreted: Callable[[str], ModuleType], factor: int, channels: int, first: int, all_channels: int
) -> None:
    kernel = interpreted("torch_resize_kernel")
    height, width = 3, 5
    x = torch.randn(2, channels, height, width).contiguous(memory_format=torch.channels_last)
    size = (factor * height, factor * width)
    # The last image is not the kernel's: what it writes beyond its own is seen there.
    wanted = torch.full((3, all_channels, *size), 7.0)
    wanted[:2, first : first + channels] = functional.interpolate(x, size=size, mode="bilinear", align_corners=False)
    got = torch.full((3, all_channels, *size), 7.0).contiguous(memory_format=torch.channels_last)
    kernel._enlarge_kernel[(2 * size[0], -(-size[1] // 16))](
        x, got, height, width,
        CHANNELS=channels, FACTOR=factor, FIRST=first, ROW_LENGTH=all_channels, PIXELS=16, COLUMNS=8,
    )  # fmt: skip
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("num_splits", [1, 3, 7])
def test_the_gradients_at_the_end_of_a_block(interpreted: Callable[[str], ModuleType], num_splits: int) -> None:
    kernel = interpreted("torch_join_kernel")
    num_pixels, channels = 3 * 5 * 7, 2 * JOINED_CHANNELS
    one, other, out, x = (
        torch.randn(3, channels, 5, 7).contiguous(memory_format=torch.channels_last) for _ in range(4)
    )
    pixels_of_split = -(-num_pixels // num_splits)
    passed, sums = torch.full_like(out, torch.nan), torch.full((2, num_splits, channels), torch.nan)
    kernel._join_kernel[(2, num_splits)](
        one, other, out, x, passed, sums, num_pixels, num_splits, pixels_of_split,
        CHANNELS=channels, COLUMNS=JOINED_CHANNELS, ROWS=16,
    )  # fmt: skip
    wanted, total, weighted = torch_norm._join_gradients(one, other, out, x)
    torch.testing.assert_close(passed, wanted)
    torch.testing.assert_close(sums.sum(1)[0], total.flatten(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(sums.sum(1)[1], weighted.flatten(), rtol=1e-4, atol=1e-4)


def test_only_even_factors_take_the_kernel() -> None:
    x = torch.zeros(1, 2, 4, 6)
    factors: list[tuple[tuple[int, int], int | None]] = [
        ((4, 6), 1), ((8, 12), 2), ((32, 48), 8), ((12, 18), None), ((8, 18), None), ((9, 12), None),
    ]  # fmt: skip
    for size, factor in factors:
        assert torch_resize._factor(x, size) == factor


@pytest.mark.parametrize(
    ("build", "finds", "joins"),
    [
        (build_resnet, True, True),
        (build_resnet_joining, False, True),
        (build_resnet_finding, True, False),
        (build_psenet, False, False),
    ],
)
def test_each_of_the_shorter_gradients_can_be_left_out(
    build: Callable[[str], nn.Module], finds: bool, joins: bool
) -> None:
    norms = [module for module in build("fast").modules() if isinstance(module, torch_norm.SumBatchNorm2d)]
    assert {(norm.finds_signs, norm.joins_gradients) for norm in norms} == {(finds, joins)}


@pytest.mark.skipif(not has_cpp_compiler(), reason="no C++ compiler")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_compiled_end_of_a_block_has_the_gradients_of_both_users(dtype: torch.dtype) -> None:
    """PyTorch 2.11 compiles a gradient of zero where a function of our own returns one tensor under two names."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(JOINED_CHANNELS)
    nn.init.normal_(norm.weight)
    fast = torch_norm.SumBatchNorm2d.of(norm)
    fast.finds_signs = fast.joins_gradients = True
    x, shortcut, one, other = (torch.randn(2, JOINED_CHANNELS, 5, 5).to(dtype) for _ in range(4))
    leaves = [x.requires_grad_(), shortcut.requires_grad_(), norm.weight, norm.bias]

    def weigh(norm: nn.Module) -> torch.Tensor:
        first, second = torch_norm.norm_add_relu(norm, torch_norm.norm_relu(norm, x), shortcut)
        return (first * one).sum() + (second * other).sum()

    wanted = torch.autograd.grad(weigh(norm), leaves)
    got = torch.autograd.grad(torch.compile(weigh, dynamic=False)(fast), leaves)
    most = 1e-4 if dtype is torch.float32 else 0.1  # rounding to bf16 changes the sign of what is next to zero
    for left, right in zip(got, wanted, strict=True):
        assert (left - right).norm() <= most * right.norm()
