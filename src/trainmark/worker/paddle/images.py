"""JPEG files to a normalised batch: decoded on the CPU, copied to the device."""

from __future__ import annotations

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle import Tensor

from trainmark.worker.images import ImageDecoder, ImageList
from trainmark.worker.samples import Problems
from trainmark.workloads.data import JpegFolder

Batch = tuple[Tensor, Tensor]
"""Images and labels on the device."""


class DecodedImages:
    def __init__(self, data: JpegFolder, problems: Problems) -> None:
        self._decoder = ImageDecoder(data.image_size, problems)
        self._mean = 255 * np.array(data.mean, dtype=np.float32)
        self._std = 255 * np.array(data.std, dtype=np.float32)

    def prepare(self, images: ImageList, labels: NDArray[np.int64]) -> Batch:
        planes = ((self._decoder.decode(images) - self._mean) / self._std).transpose(0, 3, 1, 2)
        return paddle.to_tensor(np.ascontiguousarray(planes)), paddle.to_tensor(labels)

    def close(self) -> None:
        self._decoder.close()
