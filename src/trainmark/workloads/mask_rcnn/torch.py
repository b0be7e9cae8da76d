"""Mask R-CNN in PyTorch. The network is in `torch_model`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainmark.workloads.card import ImageSize
from trainmark.workloads.loss import total_loss
from trainmark.workloads.mask_rcnn.card import CARD, buckets_of, regions_per_image
from trainmark.workloads.mask_rcnn.torch_model import VARIANTS, RecipeRCNN, Target, build_mask_rcnn
from trainmark.workloads.mask_rcnn.torch_norm import noise_images
from trainmark.workloads.mask_rcnn.torch_static import StaticRCNN
from trainmark.workloads.optimisations import network_optimisations
from trainmark.workloads.torch import Examined, ParameterGroup, at_least_float32

Batch = dict[str, list[Any]]
"""`images` as bytes (height x width x 3, different sizes); `targets` in training, `image_ids` in evaluation."""

_OBJECTS_PER_IMAGE = 7
"""COCO has 7.3."""
_OBJECT_SIDES = (0.06, 0.6)
"""Relative to the short side: 48 to 480 pixels at 800, log-uniform."""


def build_model(
    *,
    recipe: str,
    device_type: str,
    num_classes: int,
    size: ImageSize,
    without: Collection[str] = (),
) -> nn.Module:
    uses = network_optimisations("mask_rcnn", device_type, without=without) if recipe == "fast" else frozenset()
    kind = StaticRCNN if "fixed_shapes" in uses else RecipeRCNN
    model = build_mask_rcnn(
        kind=kind,
        variant=VARIANTS[recipe],
        num_outputs=num_classes + 1,
        short_side=size.height,
        num_regions=regions_per_image(size),
    )
    if isinstance(model, StaticRCNN):
        model.buckets = buckets_of(size)
    return model


def arrange(model: nn.Module, batch: Batch) -> Any:
    """For `fast`: the batch with fixed shapes, before the step that is captured."""
    return model.arrange(batch) if isinstance(model, StaticRCNN) else batch


def make_blank(model: nn.Module, shape: tuple[int, ...], *, batch_size: int) -> Any:
    """A batch that needs no data, arranged as those are whose `batch_shape` this is."""
    assert isinstance(model, StaticRCNN)
    height, width, places = shape
    return model.make_blank((height, width, places), num_images=batch_size)


def parameter_groups(model: nn.Module) -> list[ParameterGroup]:
    """Biases learn twice as fast and are not decayed."""
    trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    weights = [parameter for name, parameter in trained if not name.endswith(".bias")]
    biases = [parameter for name, parameter in trained if name.endswith(".bias")]
    return [
        ParameterGroup(params=weights, weight_decay=CARD.optimizer.weight_decay),
        ParameterGroup(params=biases, weight_decay=0.0, lr_scale=2.0),
    ]


def examine(model: nn.Module, batch: Batch) -> Examined:
    """The terms are objectness and box of the proposals, and class, box and mask of the regions."""
    losses, features = model(batch) if "pixels" in batch else model(batch["images"], batch["targets"])
    outputs = {f"features.{level}": feature for level, feature in features.items()}
    return outputs, {name: at_least_float32(loss) for name, loss in losses.items()}


def compute_loss(model: nn.Module, batch: Batch) -> Tensor:
    return total_loss(examine(model, batch)[1])


def score(model: nn.Module, batch: Batch) -> list[dict[str, Any]]:
    """One item per image, also if nothing was found: the items say which images were evaluated."""
    found = model(batch["images"])
    return [_as_item(int(number), result) for number, result in zip(batch["image_ids"], found, strict=True)]


def _as_item(image_id: int, result: Mapping[str, Tensor]) -> dict[str, Any]:
    from pycocotools import mask as coco_mask

    boxes = at_least_float32(result["boxes"])
    corners, far = boxes[:, :2], boxes[:, 2:]
    # COCO's run lengths go down the columns: transposing on the device saves a copy on the host.
    masks = (result["masks"][:, 0] > 0.5).to(torch.uint8).transpose(1, 2).contiguous().cpu().numpy()
    height, width = result["masks"].shape[-2:]
    runs = coco_mask.encode(np.transpose(masks, (2, 1, 0))) if len(masks) else []
    return {
        "image_id": image_id,
        "size": [height, width],
        "boxes": torch.cat([corners, far - corners], dim=1).tolist(),
        "scores": at_least_float32(result["scores"]).tolist(),
        "labels": result["labels"].tolist(),
        "masks": [run["counts"].decode("ascii") for run in runs],
    }


def synthetic_batch(*, batch_size: int, size: ImageSize, num_classes: int, generator: torch.Generator) -> Batch:
    """Cloudy noise with seven ellipses to find in each image, at random places, sizes and classes."""
    noise = noise_images(batch_size, size.height, size.width, generator).permute(0, 2, 3, 1)
    images = list((noise * 55 + 115).clamp(0, 255).to(torch.uint8).contiguous())
    return {"images": images, "targets": [_random_target(size, num_classes, generator) for _ in images]}


def _random_target(size: ImageSize, num_classes: int, generator: torch.Generator) -> Target:
    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=generator.device)

    low, high = (side * size.height for side in _OBJECT_SIDES)
    sides = low * (high / low) ** uniform(_OBJECTS_PER_IMAGE, 2)
    limits = torch.tensor([size.width, size.height], device=generator.device)
    corners = uniform(_OBJECTS_PER_IMAGE, 2) * (limits - sides)
    x = torch.arange(size.width, device=generator.device) + 0.5
    y = torch.arange(size.height, device=generator.device) + 0.5
    across = (x - corners[:, :1]) / sides[:, :1] * 2 - 1
    down = (y - corners[:, 1:]) / sides[:, 1:] * 2 - 1
    inside = across[:, None, :] ** 2 + down[:, :, None] ** 2 <= 1
    shape = (_OBJECTS_PER_IMAGE,)
    labels = torch.randint(1, num_classes + 1, shape, generator=generator, device=generator.device)
    return {"boxes": torch.cat([corners, corners + sides], dim=1), "labels": labels, "masks": inside.to(torch.uint8)}
