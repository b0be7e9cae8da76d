"""JPEG files to a normalised batch: on the CPU here, for a GPU in `gpu_images`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainmark.worker.images import ImageDecoder, ImageList
from trainmark.worker.samples import Problems

Batch = tuple[Tensor, Tensor]
"""Images and labels on the device."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """What the model expects."""

    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: torch.dtype
    channels_last: bool


class CpuImages:
    def __init__(self, wanted: Format, problems: Problems) -> None:
        self._format = wanted
        self._decoder = ImageDecoder(wanted.image_size, problems)

    def prepare(self, images: ImageList, labels: NDArray[np.int64]) -> Batch:
        return self._normalise(torch.from_numpy(self._decoder.decode(images))), torch.from_numpy(labels)

    def _normalise(self, batch: Tensor) -> Tensor:
        mean = 255 * torch.tensor(self._format.mean)
        std = 255 * torch.tensor(self._format.std)
        images = ((batch - mean) / std).permute(0, 3, 1, 2)
        layout = torch.channels_last if self._format.channels_last else torch.contiguous_format
        return images.to(self._format.dtype).contiguous(memory_format=layout)

    def close(self) -> None:
        self._decoder.close()
