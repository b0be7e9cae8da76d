"""What NVIDIA's configuration does differently from torchvision's: stride, proposals and the loss of the boxes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models.detection.roi_heads import RoIHeads, maskrcnn_loss
from torchvision.models.detection.rpn import RegionProposalNetwork
from torchvision.models.resnet import Bottleneck

BOX_BETA = 1.0
"""Where the smooth L1 loss of the boxes becomes linear; 1/9 in torchvision. The proposals have 1/9 in both."""


def move_strides(backbone: nn.Module) -> None:
    """Into the first 1x1 of each halving block, in place; the shortcut keeps its own."""
    for block in backbone.modules():
        if isinstance(block, Bottleneck) and block.conv2.stride != (1, 1):
            block.conv1.stride, block.conv2.stride = block.conv2.stride, (1, 1)


class NgcProposals(RegionProposalNetwork):  # type: ignore[misc]
    """Trains on no anchor that crosses the border of its image, and shares the proposals among the device's batch."""

    def assign_targets_to_anchors(
        self, anchors: list[Tensor], targets: list[dict[str, Any]]
    ) -> tuple[list[Tensor], list[Tensor]]:
        labels, boxes = super().assign_targets_to_anchors(anchors, targets)
        pairs = zip(labels, anchors, targets, strict=True)
        return [torch.where(is_inside(a, target["size"]), label.to(a.dtype), -1.0) for label, a, target in pairs], boxes

    def filter_proposals(
        self,
        proposals: Tensor,
        objectness: Tensor,
        image_shapes: list[tuple[int, int]],
        num_anchors_per_level: list[int],
    ) -> tuple[list[Tensor], list[Tensor]]:
        boxes, scores = super().filter_proposals(proposals, objectness, image_shapes, num_anchors_per_level)
        if not self.training:
            return boxes, scores
        kept = best_of_all(scores, self.post_nms_top_n())
        return (
            [part[chosen] for part, chosen in zip(boxes, kept, strict=True)],
            [part[chosen] for part, chosen in zip(scores, kept, strict=True)],
        )


def is_inside(anchors: Tensor, size: tuple[int, int]) -> Tensor:
    """Of the image's own (height, width), without the padding of the batch."""
    height, width = size
    left, top, right, bottom = anchors.unbind(1)
    return (left >= 0) & (top >= 0) & (right < width) & (bottom < height)


def best_of_all(scores: list[Tensor], num_kept: int) -> list[Tensor]:
    """For each image, which of its scores are among the `num_kept` highest of all images."""
    together = torch.cat(scores)
    is_kept = torch.zeros_like(together, dtype=torch.bool)
    is_kept[together.topk(min(num_kept, len(together))).indices] = True
    return list(is_kept.split([len(part) for part in scores]))


class NgcHeads(RoIHeads):  # type: ignore[misc]
    """torchvision's stages in torchvision's order; only the loss of the boxes differs."""

    def forward(
        self,
        features: dict[str, Tensor],
        proposals: list[Tensor],
        image_shapes: list[tuple[int, int]],
        targets: list[dict[str, Any]] | None = None,
    ) -> tuple[list[dict[str, Tensor]], dict[str, Tensor]]:
        if not self.training:
            found: tuple[list[dict[str, Tensor]], dict[str, Tensor]] = super().forward(
                features, proposals, image_shapes, targets
            )
            return found
        assert targets is not None
        proposals, matched, labels, wanted = self.select_training_samples(proposals, targets)
        pooled = self.box_head(self.box_roi_pool(features, proposals, image_shapes))
        scores, offsets = self.box_predictor(pooled)
        classes = torch.cat(labels)
        positives = [torch.where(part > 0)[0] for part in labels]
        outlined = [part[chosen] for part, chosen in zip(proposals, positives, strict=True)]
        masks = self.mask_predictor(self.mask_head(self.mask_roi_pool(features, outlined, image_shapes)))
        return [], {
            "loss_classifier": functional.cross_entropy(scores, classes),
            "loss_box_reg": box_loss(offsets, torch.cat(wanted), classes),
            "loss_mask": maskrcnn_loss(
                masks,
                outlined,
                [target["masks"] for target in targets],
                [target["labels"] for target in targets],
                [part[chosen] for part, chosen in zip(matched, positives, strict=True)],
            ),
        }


def box_loss(offsets: Tensor, wanted: Tensor, classes: Tensor) -> Tensor:
    """Smooth L1 of the offsets of each region's own class, summed, over the number of all regions."""
    positive = torch.where(classes > 0)[0]
    own = offsets.unflatten(1, (-1, 4))[positive, classes[positive]]
    return functional.smooth_l1_loss(own, wanted[positive], beta=BOX_BETA, reduction="sum") / classes.numel()
