"""JPEG files to a normalised batch on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from trainmark.worker.images import ImageDecoder, ImageList
from trainmark.worker.jax.placement import Placement
from trainmark.worker.samples import Problems

Batch = tuple[Array, Array]
"""Images (n x height x width x 3) and labels on the device."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """What the model expects."""

    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


class DecodedImages:
    """Decoded by the host's cores; bytes are copied, because they are a quarter of the size."""

    def __init__(self, wanted: Format, problems: Problems, placement: Placement) -> None:
        self._format, self._placement = wanted, placement
        self._decoder = ImageDecoder(wanted.image_size, problems)

    def prepare(self, images: ImageList, labels: NDArray[np.int64]) -> Batch:
        normalised = self._normalise(self._decoder.decode(images))
        batch: Batch = self._placement.put_own((normalised, labels.astype(np.int32)))
        return batch

    def _normalise(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32] | Array:
        mean, std = _scaled(self._format.mean), _scaled(self._format.std)
        if self._placement.device.platform == "cpu":
            return (pixels - mean) / std
        normalised: Array = _normalise(jax.device_put(pixels, self._placement.device), mean, std)
        return normalised

    def close(self) -> None:
        self._decoder.close()


def _scaled(values: Sequence[float]) -> NDArray[np.float32]:
    return np.float32(255) * np.array(values, np.float32)


@jax.jit
def _normalise(pixels: Array, mean: Array, std: Array) -> Array:
    return (pixels.astype(jnp.float32) - mean) / std
