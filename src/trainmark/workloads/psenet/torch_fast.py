"""PSENet with layers that suit the hardware: the network of `torch_model`, the same parameters and function."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from torch import Tensor, nn

from trainmark.workloads.psenet.card import NUM_KERNELS
from trainmark.workloads.psenet.torch_model import PSENet
from trainmark.workloads.torch import at_least_float32
from trainmark.workloads.torch_norm import speed_up_norms
from trainmark.workloads.torch_padding import convolve_padded
from trainmark.workloads.torch_parts import run_part, uncompiled
from trainmark.workloads.torch_residual import Started, join, run_stages, start_block
from trainmark.workloads.torch_resize import concatenate_enlarged, enlarge
from trainmark.workloads.torch_stem import MaxPool3x3Stride2, SpaceToDepthConv2d


class FastPSENet(PSENet):
    def __init__(self, uses: Collection[str]) -> None:
        super().__init__()
        first: Any = self.stem[0]
        if "block_stem" in uses:
            first[0] = SpaceToDepthConv2d.of(first[0])
        if "gathering_pool" in uses:
            self.stem[3] = MaxPool3x3Stride2()
        if "sum_norms" in uses:
            speed_up_norms(self, uses)
        self.gathers_gradients = "gathering_resize" in uses
        self.writes_pyramid = "written_pyramid" in uses
        self.pads_channels = "padded_channels" in uses
        self._is_parted = "shared_blocks" in uses

    @uncompiled
    def forward(self, images: Tensor) -> Tensor:
        if not self._is_parted:
            return _run_whole(self, images)
        layers = (self.layer1, self.layer2, self.layer3, self.layer4)
        outputs, last = run_stages(layers, run_part(_enter, self, images), keeps_outputs=True)
        maps: Tensor = run_part(_leave, self, outputs, images.shape[2:], *last)
        return maps


# -- compiled parts ----------------------------------------------------------------------------------------------------


def _run_whole(network: Any, images: Tensor) -> Tensor:
    features, x = [], network.stem(images)
    for layer in (network.layer1, network.layer2, network.layer3, network.layer4):
        x = layer(x)
        features.append(x)
    return _draw_maps(network, features, images.shape[2:])


def _enter(network: Any, images: Tensor) -> Started:
    return start_block(network.layer1[0], network.stem(images))


def _leave(
    network: Any,
    features: Sequence[Tensor],
    size: Sequence[int],
    branch: Tensor,
    norm: nn.Module,
    shortcut: Tensor,
    shortcut_norm: nn.Module | None,
) -> Tensor:
    return _draw_maps(network, [*features, join(branch, norm, shortcut, shortcut_norm)], size)


def _draw_maps(network: Any, features: Sequence[Tensor], size: Sequence[int]) -> Tensor:
    gathers = network.gathers_gradients
    pyramid = [lateral(feature) for lateral, feature in zip(network.laterals, features, strict=True)]
    for level in (2, 1, 0):
        enlarged = enlarge(pyramid[level + 1], pyramid[level].shape[2:], gathers=gathers)
        pyramid[level] = network.smooths[level](pyramid[level] + enlarged)
    smooth, to_maps = network.head
    mixed = smooth(concatenate_enlarged(pyramid, gathers=gathers, writes=network.writes_pyramid))
    maps = convolve_padded(to_maps, mixed)[:, :NUM_KERNELS] if network.pads_channels else to_maps(mixed)
    return enlarge(at_least_float32(maps), size, gathers=gathers)
