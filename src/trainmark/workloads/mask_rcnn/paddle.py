"""Mask R-CNN in Paddle. The network is in `paddle_model`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from paddle import Tensor, nn

from trainmark.workloads.card import ImageSize
from trainmark.workloads.linear_resize import linear_weights
from trainmark.workloads.loss import total_loss
from trainmark.workloads.mask_rcnn.card import CARD, regions_per_image
from trainmark.workloads.mask_rcnn.paddle_model import MaskRCNN
from trainmark.workloads.paddle import Examined, ParameterGroup, at_least_float

Batch = dict[str, list[Any]]
"""`images` as bytes (height x width x 3, different sizes); `targets` in training, `image_ids` in evaluation."""


def build_model(*, recipe: str, device_type: str, num_classes: int, size: ImageSize) -> nn.Layer:  # noqa: ARG001
    return MaskRCNN(num_outputs=num_classes + 1, short_side=size.height, num_regions=regions_per_image(size))


def parameter_groups(model: nn.Layer) -> list[ParameterGroup]:
    """Biases learn twice as fast and are not decayed."""
    trained = [(name, parameter) for name, parameter in model.named_parameters() if not parameter.stop_gradient]
    weights = [parameter for name, parameter in trained if not name.endswith(".bias")]
    biases = [parameter for name, parameter in trained if name.endswith(".bias")]
    return [
        ParameterGroup(params=weights, weight_decay=CARD.optimizer.weight_decay),
        ParameterGroup(params=biases, weight_decay=0.0, lr_scale=2.0),
    ]


def examine(model: nn.Layer, batch: Batch) -> Examined:
    """The terms are objectness and box of the proposals, and class, box and mask of the regions."""
    losses, features = model(batch["images"], batch["targets"])
    outputs = {f"features.{level}": feature for level, feature in features.items()}
    return outputs, {name: at_least_float(loss) for name, loss in losses.items()}


def compute_loss(model: nn.Layer, batch: Batch) -> Tensor:
    return total_loss(examine(model, batch)[1])


def score(model: nn.Layer, batch: Batch) -> list[dict[str, Any]]:
    """One item per image, also if nothing was found: the items say which images were evaluated."""
    found = model(batch["images"])
    ids = (int(number.item()) for number in batch["image_ids"])
    return [_as_item(number, result) for number, result in zip(ids, found, strict=True)]


def _as_item(image_id: int, result: dict[str, Any]) -> dict[str, Any]:
    from pycocotools import mask as coco_mask

    boxes: NDArray[Any] = result["boxes"]
    height, width = result["size"]
    masks = np.zeros((height, width, len(boxes)), dtype=np.uint8, order="F")
    for number, (mask, box) in enumerate(zip(result["masks"], boxes, strict=True)):
        _paste(mask, box, masks[:, :, number])
    runs = coco_mask.encode(masks) if len(boxes) else []
    return {
        "image_id": image_id,
        "size": [height, width],
        "boxes": np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1).tolist(),
        "scores": result["scores"].tolist(),
        "labels": result["labels"].tolist(),
        "masks": [run["counts"].decode("ascii") for run in runs],
    }


def _paste(mask: NDArray[Any], box: NDArray[Any], image: NDArray[np.uint8]) -> None:
    """A mask of 28 x 28 into its box, as torchvision does it: with a border of one cell, in whole pixels."""
    side = len(mask)
    bordered = np.pad(mask, 1)
    centre, half = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) / 2 * (side + 2) / side
    left, top, right, bottom = (int(value) for value in (*(centre - half), *(centre + half)))
    width, height = max(right - left + 1, 1), max(bottom - top + 1, 1)
    sized = linear_weights(side + 2, height) @ bordered @ linear_weights(side + 2, width).T
    rows = slice(max(top, 0), min(bottom + 1, image.shape[0]))
    columns = slice(max(left, 0), min(right + 1, image.shape[1]))
    part = sized[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left]
    image[rows, columns] = part > 0.5
