"""PSENet for NVIDIA GPUs: the network of `torch_model`, the same parameters, with layers that suit the hardware."""

from __future__ import annotations

from torch import Tensor

from trainmark.workloads.psenet.card import NUM_KERNELS
from trainmark.workloads.psenet.torch_model import PSENet
from trainmark.workloads.torch import at_least_float32
from trainmark.workloads.torch_norm import speed_up_norms
from trainmark.workloads.torch_padding import convolve_padded
from trainmark.workloads.torch_resize import concatenate_enlarged, enlarge
from trainmark.workloads.torch_stem import MaxPool3x3Stride2, SpaceToDepthConv2d


class FastPSENet(PSENet):
    def __init__(self) -> None:
        super().__init__()
        first, pool = self.stem[0], MaxPool3x3Stride2()
        first[0] = SpaceToDepthConv2d.of(first[0])  # type: ignore[index, operator]
        self.stem[3] = pool
        speed_up_norms(self)

    def forward(self, images: Tensor) -> Tensor:
        features, x = [], self.stem(images)
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
            features.append(x)
        pyramid = [lateral(feature) for lateral, feature in zip(self.laterals, features, strict=True)]
        for level in (2, 1, 0):
            size = pyramid[level].shape[2:]
            pyramid[level] = self.smooths[level](pyramid[level] + enlarge(pyramid[level + 1], size))
        smooth, to_maps = self.head
        maps = convolve_padded(to_maps, smooth(concatenate_enlarged(pyramid)))[:, :NUM_KERNELS]  # type: ignore[arg-type]
        return enlarge(at_least_float32(maps), images.shape[2:])
