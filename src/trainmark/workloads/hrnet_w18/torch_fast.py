"""HRNet-W18 for NVIDIA GPUs: the network of `torch_network`, the same parameters, run in another way.

- Branches of 18 and 36 channels carry 24 and 40 (`torch_padding`).
- The compiler sees the network in parts, most of which occur several times, and compiles each kind once.
- The branches of a module do not depend on each other. Each has its own stream, so that they share the GPU.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainmark.workloads.hrnet_w18.torch_network import CHANNELS, Network
from trainmark.workloads.torch_norm import SumBatchNorm2d, speed_up_norms
from trainmark.workloads.torch_padding import CHANNEL_MULTIPLE, convolve_padded
from trainmark.workloads.torch_parts import run_part, uncompiled
from trainmark.workloads.torch_resize import concatenate_enlarged, enlarge
from trainmark.workloads.torch_stem import SpaceToDepthConv2d


class FastNetwork(Network):
    """What is marked `uncompiled` is plain Python between the compiled parts, which are the other functions here."""

    def __init__(self, num_classes: int, uses: Collection[str]) -> None:
        super().__init__(num_classes)
        first: Any = self.stem[0]
        if "block_stem" in uses:
            first[0] = SpaceToDepthConv2d.of(first[0])
        if "sum_norms" in uses:
            speed_up_norms(self, uses)
        module: Any
        for module in self.modules():  # where the compiled parts find them
            module.channel_multiple = CHANNEL_MULTIPLE if "padded_channels" in uses else 1
            module.gathers_gradients = "gathering_resize" in uses
        self.writes_pyramid = "written_pyramid" in uses
        self._forks = "parallel_branches" in uses
        self._streams: list[torch.cuda.Stream] = []

    @uncompiled
    def forward(self, images: Tensor) -> Tensor:
        x = run_part(_convolve_all, self.stem, images)
        for block in self.stage1:
            x = run_part(_run_bottleneck, block, x)
        branches = [run_part(_convolve, unit, x) for unit in self.enter]
        streams = self._fork(branches)
        for stage, down in ((self.stage2, self.down3), (self.stage3, self.down4), (self.stage4, None)):
            for module in stage:
                branches = _exchange(module, branches, streams)
            if down is not None:
                lowest = len(branches) - 1
                with _on(streams, lowest):
                    branches.append(run_part(_convolve, down, branches[-1]))
                _hand_over(streams, lowest, lowest + 1, branches[-1])
        for source in range(1, len(branches)):
            _hand_over(streams, source, 0, branches[source])
        scores: Tensor = run_part(_classify, self, branches, images.shape[-2:])
        return scores

    @uncompiled
    def _fork(self, branches: Sequence[Tensor]) -> list[torch.cuda.Stream]:
        """One stream for each branch, of which the first is the current one; none where all have to share one."""
        if not self._forks or not branches[0].is_cuda:
            return []
        if not self._streams:
            self._streams = [torch.cuda.Stream(branches[0].device) for _ in CHANNELS[1:]]
        streams = [torch.cuda.current_stream(), *self._streams]
        for number in range(1, len(streams)):
            _hand_over(streams, 0, number, branches[min(number, len(branches) - 1)])
        return streams


@uncompiled
def _exchange(module: Any, inputs: Sequence[Tensor], streams: Sequence[torch.cuda.Stream]) -> list[Tensor]:
    branches = []
    for number, x in enumerate(inputs):
        with _on(streams, number):
            for block in module.branches[number]:
                x = run_part(_run_block, block, x)
            branches.append(x)
    done = [stream.record_event() for stream in streams[: len(branches)]]
    sums = []
    for target in range(len(branches)):
        for source in range(len(branches)):
            if streams and source != target:
                streams[target].wait_event(done[source])
                branches[source].record_stream(streams[target])
        with _on(streams, target):
            sums.append(run_part(_gather, module.paths[target], branches, target))
    return sums


@uncompiled
def _on(streams: Sequence[torch.cuda.Stream], number: int) -> AbstractContextManager[Any]:
    return torch.cuda.stream(streams[number]) if streams else nullcontext()


@uncompiled
def _hand_over(streams: Sequence[torch.cuda.Stream], source: int, target: int, x: Tensor) -> None:
    """What the first stream made is used on the second."""
    if streams:
        streams[target].wait_stream(streams[source])
        x.record_stream(streams[target])


# -- compiled parts ----------------------------------------------------------------------------------------------------


def _convolve_all(units: Any, x: Tensor) -> Tensor:
    for unit in units:
        x = _convolve(unit, x)
    return x


def _run_bottleneck(block: Any, x: Tensor) -> Tensor:
    shortcut = x if isinstance(block.shortcut, nn.Identity) else _convolve(block.shortcut, x)
    return functional.relu(_convolve_all(block.body, x) + shortcut)


def _run_block(block: Any, x: Tensor) -> Tensor:
    return functional.relu(_convolve_all(block.body, x) + x)


def _gather(paths: Any, branches: Sequence[Tensor], target: int) -> Tensor:
    total, size = branches[target], branches[target].shape[-2:]
    for source, branch in enumerate(branches):
        if source > target:
            total = total + enlarge(_convolve(paths[source], branch), size, gathers=paths.gathers_gradients)
        elif source < target:
            total = total + _convolve_all(paths[source], branch)
    return functional.relu(total)


def _classify(network: Any, branches: Sequence[Tensor], size: Sequence[int]) -> Tensor:
    convolution, norm, relu = network.mix
    together = concatenate_enlarged(branches, gathers=network.gathers_gradients, writes=network.writes_pyramid)
    multiple = network.channel_multiple
    mixed = relu(_normalise(norm, convolve_padded(convolution, together, parts=CHANNELS, multiple=multiple)))
    scores = convolve_padded(network.classify, mixed, multiple=multiple)[:, : network.classify.out_channels]
    return enlarge(scores, size, gathers=network.gathers_gradients)


def _convolve(unit: Any, x: Tensor) -> Tensor:
    """A convolution, its norm and where there is one its ReLU."""
    convolution, norm, *relu = unit
    has_padding = isinstance(convolution, SpaceToDepthConv2d)  # of its own
    multiple = convolution.channel_multiple
    x = _normalise(norm, convolution(x) if has_padding else convolve_padded(convolution, x, multiple=multiple))
    return functional.relu(x) if relu else x


def _normalise(norm: Any, x: Tensor) -> Tensor:
    if isinstance(norm, SumBatchNorm2d):
        return norm.forward(x)
    # SyncBatchNorm, where several devices train together, knows nothing of additional channels.
    real: Tensor = norm(x[:, : norm.num_features])
    return functional.pad(real, (0, 0, 0, 0, 0, x.shape[1] - real.shape[1]))
