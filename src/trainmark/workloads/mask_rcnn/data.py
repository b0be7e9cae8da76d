"""COCO for Mask R-CNN: the whole image as bytes, its boxes and bitmaps, mirrored with probability 1/2.

The device resizes and normalises, so images and bitmaps are copied at their own size. Crowds are left out of training;
in evaluation they are regions in which detections do not count.
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
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import Sample, UnusableSampleError

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
SIDE_MULTIPLE = 32
"""A batch is padded to multiples of this, the stride of the coarsest level of the pyramid."""
LONG_PER_SHORT = 1333 / 800
"""The largest allowed long side, for a short side of 1."""
_MAX_MASK_BYTES = 2**30
"""Of one image: 900 objects at 1280 x 960. More means a broken file."""


def open_data(root: Path, *, size: ImageSize) -> CocoImages:  # noqa: ARG001 - images are resized on the device
    load_coco_mask()  # fails now, not during the run, if it is not installed
    return CocoImages(read_coco(root))


class CocoImages:
    def __init__(self, folder: CocoFolder) -> None:
        self._root, self._train, self._val = folder.root, folder.train, folder.val
        self.num_train = len(folder.train.images)
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
        is_tall = (self._train.images.heights > self._train.images.widths)[shuffled]
        kinds = [shuffled[~is_tall], shuffled[is_tall]]
        whole = [len(kind) // global_batch * global_batch for kind in kinds]
        mixed = np.concatenate([kind[length:] for kind, length in zip(kinds, whole, strict=True)])
        mixed = mixed[: len(mixed) // global_batch * global_batch]
        parts = [kind[:length] for kind, length in zip(kinds, whole, strict=True)]
        batches = np.concatenate([*parts, mixed]).reshape(-1, global_batch)
        return rng.permutation(batches).reshape(-1)

    def train_sample(self, index: int, rng: np.random.Generator) -> Sample:
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


def input_size(height: int, width: int, short_side: int) -> tuple[int, int]:
    """(height, width) with the short side at `short_side`, or smaller if the long side would be too long."""
    scale = min(short_side / min(height, width), longest_side(short_side) / max(height, width))
    return max(1, round(height * scale)), max(1, round(width * scale))


def longest_side(short_side: int) -> int:
    return round(short_side * LONG_PER_SHORT)


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
