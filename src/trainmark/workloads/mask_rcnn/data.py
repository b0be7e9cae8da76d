"""COCO for Mask R-CNN: the whole image as bytes, its boxes and bitmaps, mirrored with probability 1/2.

The device resizes and normalises, so images and bitmaps are copied at their own size. Crowds are left out of training;
in evaluation they are regions in which detections do not count. Training images without objects are left out, as in
both public recipes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.coco.masks import bitmaps, load_coco_mask, run_lengths
from trainmark.datasets.coco.read import CocoFolder, read_coco
from trainmark.datasets.coco.tables import CocoSplit
from trainmark.datasets.jpeg import decode_lenient
from trainmark.errors import DataError
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import Sample, UnusableSampleError
from trainmark.workloads.mask_rcnn.card import batch_shape, buckets_of

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
SIDE_MULTIPLE = 32
"""A batch is padded to multiples of this, the stride of the coarsest level of the pyramid."""
LONG_PER_SHORT = 1333 / 800
"""The largest allowed long side, for a short side of 1."""
_MIN_SIDE = 1.0
"""A training image whose boxes are all no wider or no higher than this counts as one without objects."""
_MAX_MASK_BYTES = 2**30
"""Of one image: 900 objects at 1280 x 960. More means a broken file."""


def open_data(root: Path, *, size: ImageSize) -> CocoImages:
    load_coco_mask()  # fails now, not during the run, if it is not installed
    return CocoImages(read_coco(root), size)


class CocoImages:
    def __init__(self, folder: CocoFolder, size: ImageSize) -> None:
        """`size`: to which the device resizes images."""
        self._size = size
        self._root, self._train, self._val = folder.root, folder.train, folder.val
        self._used = images_with_objects(folder.train)
        """The number in the annotations of each image to train on."""
        if not len(self._used):
            raise DataError(
                f"no training image of {folder.root} has an object",
                why="every box is missing or at most 1 pixel wide or high",
                hint="check the annotations: trainmark data check coco DIR",
            )
        self.num_train = len(self._used)
        self.num_val = 0 if folder.val is None else len(folder.val.images)
        self.num_classes = len(folder.categories)

    @property
    def truth(self) -> Truth | None:
        return None if self._val is None else Truth(self._val)

    def order(self, *, seed: int, epoch: int, global_batch: int) -> NDArray[np.int64]:
        """Global batches of either wide or tall images, so that there is little padding, in random order.

        The rest of both kinds makes mixed batches; an incomplete last batch is left out. No image is repeated.
        """
        rng = np.random.default_rng([seed, epoch])
        shuffled = rng.permutation(self.num_train)
        is_tall = (self._train.images.heights > self._train.images.widths)[self._used][shuffled]
        kinds = [shuffled[~is_tall], shuffled[is_tall]]
        whole = [len(kind) // global_batch * global_batch for kind in kinds]
        mixed = np.concatenate([kind[length:] for kind, length in zip(kinds, whole, strict=True)])
        mixed = mixed[: len(mixed) // global_batch * global_batch]
        parts = [kind[:length] for kind, length in zip(kinds, whole, strict=True)]
        batches = np.concatenate([*parts, mixed]).reshape(-1, global_batch)
        return rng.permutation(batches).reshape(-1)

    def train_sample(self, index: int, rng: np.random.Generator) -> Sample:
        index = int(self._used[index])
        pixels, problems = self._read(self._train, index)
        boxes, labels, masks = self._targets(index)
        if rng.random() < 0.5:
            width = pixels.shape[1]
            pixels, masks = pixels[:, ::-1], masks[:, :, ::-1]
            boxes = np.stack([width - boxes[:, 2], boxes[:, 1], width - boxes[:, 0], boxes[:, 3]], axis=1)
        problems += [(self._train.path(index), problem) for problem in self._train.problems.get(index, ())]
        arrays: dict[str, NDArray[Any]] = {
            "image": np.ascontiguousarray(pixels),
            "boxes": boxes,
            "labels": labels,
            "masks": np.ascontiguousarray(masks),
        }
        return Sample(arrays=arrays, problems=tuple(problems))

    def eval_sample(self, index: int) -> Sample:
        if self._val is None:
            raise IndexError("the data set has no validation part")
        pixels, problems = self._read(self._val, index)
        problems += [(self._val.path(index), problem) for problem in self._val.problems.get(index, ())]
        arrays: dict[str, NDArray[Any]] = {"image": pixels, "image_id": self._val.images.ids[index : index + 1]}
        return Sample(arrays=arrays, problems=tuple(problems))

    def batch_shape(self, indices: NDArray[np.int64]) -> tuple[int, int, int]:
        """What `fast` pads a training batch to, from the annotations alone."""
        images, instances = self._train.images, self._train.instances
        used = self._used[indices]
        sizes = [ngc_size(int(images.heights[n]), int(images.widths[n]), self._size.height) for n in used]
        most = max(sum(not instances.is_crowd[number] for number in instances.of_image(int(n))) for n in used)
        return batch_shape(sizes, most, buckets_of(self._size))

    @staticmethod
    def collate(samples: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, list[Any]]:
        images = [sample["image"] for sample in samples]
        if "image_id" in samples[0]:
            return {"images": images, "image_ids": [sample["image_id"] for sample in samples]}
        return {
            "images": images,
            "targets": [{name: sample[name] for name in ("boxes", "labels", "masks")} for sample in samples],
        }

    def _read(self, split: CocoSplit, index: int) -> tuple[NDArray[np.uint8], list[tuple[str, str]]]:
        path = split.path(index)
        try:
            data = (self._root / path).read_bytes()
        except OSError as error:
            raise UnusableSampleError(path, error.strerror or str(error)) from error
        pixels, problem = decode_lenient(data)
        if pixels is None:
            raise UnusableSampleError(path, problem or "cannot be decoded")
        height, width = int(split.images.heights[index]), int(split.images.widths[index])
        if pixels.shape[:2] != (height, width):
            seen = f"is {pixels.shape[1]} x {pixels.shape[0]}"
            raise UnusableSampleError(path, f"{seen}, but the annotations say {width} x {height}")
        return pixels, [] if problem is None else [(path, f"{problem}; what is there is used")]

    def _targets(self, index: int) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.uint8]]:
        split, instances = self._train, self._train.instances
        chosen = [number for number in instances.of_image(index) if not instances.is_crowd[number]]
        height, width = int(split.images.heights[index]), int(split.images.widths[index])
        if len(chosen) * height * width > _MAX_MASK_BYTES:
            raise UnusableSampleError(split.path(index), f"{len(chosen)} objects of {width} x {height} pixels each")
        boxes = instances.boxes[chosen].astype(np.float32)
        boxes[:, 2:] += boxes[:, :2]
        boxes = np.clip(boxes, 0, np.array([width, height, width, height], dtype=np.float32))
        return boxes, instances.labels[chosen], bitmaps(split, chosen, index)


def ngc_size(height: int, width: int, short_side: int) -> tuple[int, int]:
    """(height, width) with the short side at `short_side`, or smaller if the long side would be too long.

    As NVIDIA's configuration does it: the short side is rounded first, and the long side follows from it, cut off.
    """
    short, long = min(height, width), max(height, width)
    if long / short * short_side > longest_side(short_side):
        short_side = max(1, round(longest_side(short_side) * short / long))
    long_side = int(short_side * long / short)
    return (short_side, long_side) if height <= width else (long_side, short_side)


def torchvision_size(height: int, width: int, short_side: int) -> tuple[int, int]:
    """The same as torchvision does it: both sides are scaled and cut off."""
    scale = min(short_side / min(height, width), longest_side(short_side) / max(height, width))
    return max(1, int(height * scale)), max(1, int(width * scale))


def longest_side(short_side: int) -> int:
    return round(short_side * LONG_PER_SHORT)


def images_with_objects(split: CocoSplit) -> NDArray[np.int64]:
    """Images with at least one box, also of a crowd, that is more than a pixel wide and high."""
    is_real = (split.instances.boxes[:, 2:] > _MIN_SIDE).all(axis=1)
    before = np.concatenate([[0], np.cumsum(is_real)])
    return np.flatnonzero(np.diff(before[split.instances.first]))


class Truth:
    """The validation annotations, converted on demand to what COCO's evaluation reads."""

    def __init__(self, split: CocoSplit) -> None:
        self._split = split
        self.num_classes = len(split.categories)

    def of_images(self, image_ids: set[int]) -> list[dict[str, Any]]:
        """Annotations of these images, crowds included, by label. Renumbered from 1: the tools treat id 0 as no id."""
        split = self._split
        found: list[dict[str, Any]] = []
        for image, image_id in enumerate(split.images.ids.tolist()):
            for number in split.instances.of_image(image) if image_id in image_ids else ():
                runs = run_lengths(split, number, image)
                area = float(split.instances.areas[number])
                found.append(
                    {
                        "id": len(found) + 1,
                        "image_id": image_id,
                        "category_id": int(split.instances.labels[number]),
                        "bbox": split.instances.boxes[number].tolist(),
                        "segmentation": runs,
                        "area": float(load_coco_mask().area(runs)) if np.isnan(area) else area,
                        "iscrowd": int(split.instances.is_crowd[number]),
                    }
                )
        return found
