"""Mask R-CNN with fixed shapes: what the network of `torch_model` does in training, without a wait for the device.

Images are padded to one of a few sizes. Objects, proposals and sampled regions have fixed numbers of places, of which
some are empty: an empty place takes part in no choice and adds nothing to a loss. So the whole step can be compiled and
captured. Evaluation is that of the base class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torchvision.ops import roi_align

from trainmark.workloads.mask_rcnn.card import batch_shape
from trainmark.workloads.mask_rcnn.torch_choice import (
    assign,
    overlap,
    pick,
    sample,
    suppress,
    take,
)
from trainmark.workloads.mask_rcnn.torch_model import RecipeRCNN
from trainmark.workloads.mask_rcnn.torch_ngc import BOX_BETA
from trainmark.workloads.mask_rcnn.torch_regions import pool_regions
from trainmark.workloads.torch_parts import run_part, uncompiled
from trainmark.workloads.torch_residual import Started, join, run_stages, start_block

Arranged = dict[str, Tensor]
"""`pixels`, `sizes` (height and width), `boxes`, `labels` (0: no object), `masks` and `anchors`, with fixed shapes."""

_PROPOSAL_BETA = 1 / 9
_STRIDES = (4, 8, 16, 32, 64)
_BOX_SIDE, _MASK_SIDE, _BITMAP_SIDE = 7, 14, 28


class StaticRCNN(RecipeRCNN):
    buckets: Sequence[tuple[int, int]] = ()
    """Heights and widths to pad a batch to, see `batch_shape`."""

    def forward(self, images: Any, targets: Any = None) -> Any:
        if isinstance(images, Mapping):
            return self._train_on(images)
        return super().forward(images, targets)

    # -- before the captured step --------------------------------------------------------------------------------------

    def arrange(self, batch: Mapping[str, Any]) -> Arranged:
        images, targets = self.transform(batch["images"], batch["targets"])
        most = max((len(target["boxes"]) for target in targets), default=0)
        height, width, places = batch_shape(images.image_sizes, most, self.buckets)
        down, right = height - images.tensors.shape[-2], width - images.tensors.shape[-1]
        pixels = functional.pad(images.tensors, (0, right, 0, down))
        arranged = self._without_objects(pixels, images.image_sizes, places)
        for number, target in enumerate(targets):
            count, (own_height, own_width) = len(target["boxes"]), target["size"]
            arranged["boxes"][number, :count] = target["boxes"]
            arranged["labels"][number, :count] = target["labels"]
            arranged["masks"][number, :count, :own_height, :own_width] = target["masks"]
        for name in ("anchor_keys", "region_keys"):
            if targets and name in targets[0]:
                arranged[name] = torch.stack([target[name] for target in targets])
        return arranged

    def make_blank(self, shape: tuple[int, int, int], *, num_images: int) -> Arranged:
        """Noise with one object in each image, arranged as a batch of this height, width and number of places."""
        height, width, places = shape
        device = next(self.parameters()).device
        noise = torch.Generator(device).manual_seed(0)  # its own: the training's random numbers stay as they are
        pixels = torch.randn((num_images, 3, height, width), generator=noise, device=device)
        arranged = self._without_objects(pixels, [(height, width)] * num_images, places)
        arranged["boxes"][:, 0] = torch.tensor([0, 0, width // 2, height // 2], device=device)
        arranged["labels"][:, 0] = 1
        arranged["masks"][:, 0, : height // 2, : width // 2] = 1
        return arranged

    def _without_objects(self, pixels: Tensor, sizes: Sequence[tuple[int, int]], places: int) -> Arranged:
        device, (num_images, _, height, width) = pixels.device, pixels.shape
        return {
            "pixels": pixels.contiguous(memory_format=torch.channels_last),
            "sizes": torch.stack([self._known_size(size, device) for size in sizes]),
            "boxes": torch.zeros((num_images, places, 4), device=device),
            "labels": torch.zeros((num_images, places), dtype=torch.int64, device=device),
            "masks": torch.zeros((num_images, places, height, width), dtype=torch.uint8, device=device),
            "anchors": self._anchors(height, width, device),
        }

    def _known_size(self, size: tuple[int, int], device: torch.device) -> Tensor:
        """On the device already, for a size that was there before: a copy from the host would wait."""
        return self._known(("size", *size), lambda: torch.tensor(size, dtype=torch.float32, device=device))

    def _anchors(self, height: int, width: int, device: torch.device) -> Tensor:
        def make() -> Tensor:
            grids = [(-(-height // stride), -(-width // stride)) for stride in _STRIDES]
            strides = [[torch.tensor(height // rows), torch.tensor(width // columns)] for rows, columns in grids]
            generator = self.rpn.anchor_generator
            generator.set_cell_anchors(torch.float32, device)
            return torch.cat(generator.grid_anchors(grids, [[part.to(device) for part in pair] for pair in strides]))

        return self._known(("anchors", height, width), make)

    def _known(self, key: tuple[str, int, int], make: Callable[[], Tensor]) -> Tensor:
        known: dict[tuple[str, int, int], Tensor] = self.__dict__.setdefault("_known_tensors", {})
        if key not in known:
            known[key] = make()
        return known[key]

    # -- the captured step; the methods after the first are compiled parts ---------------------------------------------

    @uncompiled
    def _train_on(self, batch: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        body = self.backbone.body
        stages = (body.layer1, body.layer2, body.layer3, body.layer4)
        outputs, last = run_stages(stages, run_part(_enter, body, batch["pixels"]), keeps_outputs=True)
        pyramid, logits, offsets = run_part(_find_features, self, outputs, *last)
        with torch.no_grad():
            proposals, is_proposed = run_part(StaticRCNN._propose, self, logits, offsets, batch)
        losses = run_part(StaticRCNN._proposal_losses, self, logits, offsets, batch)
        losses |= run_part(StaticRCNN._region_losses, self, pyramid, proposals, is_proposed, batch)
        return losses, dict(zip("0123", pyramid, strict=True))

    def _propose(
        self, logits: Sequence[Tensor], offsets: Sequence[Tensor], batch: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The best boxes of the whole batch, images x places x 4, and which places are taken."""
        rpn, found, scores = self.rpn, [], []
        anchors = batch["anchors"].split([level.shape[1] for level in logits])
        for level_logits, level_offsets, level_anchors in zip(logits, offsets, anchors, strict=True):
            best, order = level_logits.topk(min(rpn.pre_nms_top_n(), level_logits.shape[1]), dim=1)
            found.append(_decode(rpn.box_coder, pick(level_offsets, order), level_anchors[order]))
            scores.append(best.sigmoid())
        all_boxes = [_clip(boxes, batch["sizes"]) for boxes in found]
        kept = suppress(all_boxes, min_side=rpn.min_size, threshold=rpn.nms_thresh)
        boxes = torch.cat(all_boxes, dim=1)
        ranked = torch.where(torch.cat(kept, dim=1), torch.cat(scores, dim=1), -1.0)
        best, order = ranked.topk(min(rpn.post_nms_top_n(), ranked.shape[1]), dim=1)
        of_all = best.flatten().topk(min(rpn.post_nms_top_n(), best.numel())).indices
        is_best = torch.zeros_like(best, dtype=torch.bool).flatten().scatter(0, of_all, True).view_as(best)
        return pick(boxes, order), is_best & (best >= 0)

    def _proposal_losses(
        self, levels: Sequence[Tensor], moves: Sequence[Tensor], batch: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        logits, offsets = torch.cat(list(levels), 1), torch.cat(list(moves), 1)
        rpn, anchors, is_real = self.rpn, batch["anchors"], batch["labels"] > 0
        with torch.no_grad():
            shared = overlap(batch["boxes"], anchors[None], is_real)
            labels, matched = assign(shared, is_real, low=0.3, high=0.7, takes_best=True)
            is_inside = (anchors[:, :2] >= 0).all(1) & (anchors[:, 2:] < batch["sizes"][:, None].flip(2)).all(2)
            labels = torch.where(is_inside, labels, -1)
            keys = batch["anchor_keys"][:, : labels.shape[1]] if "anchor_keys" in batch else torch.rand_like(logits)
            chosen = sample(labels, keys, rpn.fg_bg_sampler)
            num_sampled = (chosen.is_positive.sum() + chosen.is_negative.sum()).clamp_min(1)
            near = pick(batch["boxes"], take(matched, chosen.positive)).flatten(0, 1)
            wanted = _encode(rpn.box_coder, near, anchors[chosen.positive.flatten()])
        moved = pick(offsets, chosen.positive).flatten(0, 1)
        objectness = _cross_entropy(take(logits, chosen.positive), 1.0, chosen.is_positive)
        objectness = objectness + _cross_entropy(take(logits, chosen.negative), 0.0, chosen.is_negative)
        return {
            "loss_objectness": objectness / num_sampled,
            "loss_rpn_box_reg": _box_loss(moved, wanted, chosen.is_positive.flatten(), _PROPOSAL_BETA) / num_sampled,
        }

    def _region_losses(
        self, features: Sequence[Tensor], proposals: Tensor, is_proposed: Tensor, batch: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        heads, is_real = self.roi_heads, batch["labels"] > 0
        with torch.no_grad():
            candidates = torch.cat([proposals, batch["boxes"]], dim=1)
            is_there = torch.cat([is_proposed, is_real], dim=1)
            labels, matched = assign(
                overlap(batch["boxes"], candidates, is_real), is_real, low=0.5, high=0.5, takes_best=False
            )
            labels = torch.where(is_there, labels, -1)
            chosen = sample(labels, _region_keys(batch, is_proposed), heads.fg_bg_sampler)
            places, is_used, num_positive = chosen.as_places()
            boxes = pick(candidates, places)
            objects = take(matched, places)
            own = torch.arange(places.shape[1], device=places.device) < num_positive[:, None]
            classes = torch.where(own, take(batch["labels"], objects), 0)
            num_outlined = chosen.positive.shape[1]
            outlined, is_outlined = boxes[:, :num_outlined].contiguous(), own[:, :num_outlined]
            objects, outlined_classes = objects[:, :num_outlined], classes[:, :num_outlined]
            num_used = is_used.sum().clamp_min(1)
            near = pick(batch["boxes"], objects).flatten(0, 1)
            wanted = _encode(heads.box_coder, near, outlined.flatten(0, 1))
            bitmaps = _mask_targets(batch["masks"], outlined, objects, _BITMAP_SIDE)
        scores, offsets = heads.box_predictor(
            heads.box_head(pool_regions(features, boxes, side=_BOX_SIDE).contiguous())
        )
        moved = offsets.unflatten(0, places.shape)[:, :num_outlined].unflatten(2, (-1, 4))
        moved = moved.gather(2, outlined_classes[..., None, None].expand(-1, -1, 1, 4)).flatten(0, 2)
        masks = heads.mask_predictor(heads.mask_head(pool_regions(features, outlined, side=_MASK_SIDE)))
        chosen_class = outlined_classes.flatten()[:, None, None, None].expand(-1, 1, *masks.shape[-2:])
        per_pixel = functional.binary_cross_entropy_with_logits(
            masks.gather(1, chosen_class)[:, 0].float(), bitmaps, reduction="none"
        ).mean((1, 2))
        per_region = functional.cross_entropy(scores, classes.flatten(), reduction="none")
        return {
            "loss_classifier": torch.where(is_used.flatten(), per_region, 0.0).sum() / num_used,
            "loss_box_reg": _box_loss(moved, wanted, is_outlined.flatten(), BOX_BETA) / num_used,
            "loss_mask": torch.where(is_outlined.flatten(), per_pixel, 0.0).sum() / is_outlined.sum().clamp_min(1),
        }


# -- compiled parts, beside the methods --------------------------------------------------------------------------------


def _enter(body: Any, pixels: Tensor) -> Started:
    return start_block(body.layer1[0], body.maxpool(body.relu(body.bn1(body.conv1(pixels)))))


def _find_features(
    network: Any, outputs: Sequence[Tensor], branch: Tensor, norm: Any, shortcut: Tensor, shortcut_norm: Any
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """The pyramid's levels but the last, which is only for proposals; logits and offsets of all levels' anchors."""
    stages = [*outputs, join(branch, norm, shortcut, shortcut_norm)]
    levels = list(network.backbone.fpn(dict(zip("0123", stages, strict=True))).values())
    logits, offsets = network.rpn.head(levels)
    return levels[:-1], [_by_anchor(level, 1)[..., 0] for level in logits], [_by_anchor(level, 4) for level in offsets]


def _by_anchor(level: Tensor, width: int) -> Tensor:
    """Images x (anchors x width) x height x columns to images x all anchors x width."""
    parted: Tensor = level.unflatten(1, (-1, width))
    return parted.permute(0, 3, 4, 1, 2).flatten(1, 3)


# torchvision's own coding of boxes copies its weights from the host, which a capture that is not compiled forbids.


def _decode(coder: Any, offsets: Tensor, anchors: Tensor) -> Tensor:
    """Boxes from what the network says about anchors; ... x 4 each."""
    anchors = anchors.to(offsets.dtype)
    sides = anchors[..., 2:] - anchors[..., :2]
    middles = anchors[..., :2] + 0.5 * sides
    x, y, width, height = (part / weight for part, weight in zip(offsets.unbind(-1), coder.weights, strict=True))
    middles = torch.stack([x, y], dim=-1) * sides + middles
    reach = 0.5 * (torch.stack([width, height], dim=-1).clamp(max=coder.bbox_xform_clip).exp() * sides)
    return torch.cat([middles - reach, middles + reach], dim=-1)


def _encode(coder: Any, boxes: Tensor, anchors: Tensor) -> Tensor:
    """What the network should say about anchors whose objects have these boxes."""
    sides, wanted_sides = anchors[..., 2:] - anchors[..., :2], boxes[..., 2:] - boxes[..., :2]
    moves = (boxes[..., :2] + 0.5 * wanted_sides - (anchors[..., :2] + 0.5 * sides)) / sides
    parts = torch.cat([moves, (wanted_sides / sides).log()], dim=-1).unbind(-1)
    return torch.stack([weight * part for weight, part in zip(coder.weights, parts, strict=True)], dim=-1)


def _clip(boxes: Tensor, sizes: Tensor) -> Tensor:
    limits = sizes.flip(1).repeat(1, 2)[:, None]
    return torch.minimum(boxes.clamp_min(0), limits)


def _cross_entropy(logits: Tensor, target: float, is_used: Tensor) -> Tensor:
    each = functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target), reduction="none")
    return torch.where(is_used, each, 0.0).sum()


def _box_loss(moved: Tensor, wanted: Tensor, is_used: Tensor, beta: float) -> Tensor:
    """An empty place wants what it has: its target may be infinite, and 0 times infinity is not 0."""
    wanted = torch.where(is_used[:, None], wanted, moved.detach())
    return functional.smooth_l1_loss(moved, wanted, beta=beta, reduction="sum")


def _region_keys(batch: Mapping[str, Tensor], is_proposed: Tensor) -> Tensor:
    """Random, or those handed in: one for each proposal that is there, then one for each object."""
    num_objects = batch["boxes"].shape[1]
    if "region_keys" not in batch:
        return torch.rand((is_proposed.shape[0], is_proposed.shape[1] + num_objects), device=is_proposed.device)
    keys = batch["region_keys"]
    behind = is_proposed.sum(1, keepdim=True) + torch.arange(num_objects, device=keys.device)
    return torch.cat([keys[:, : is_proposed.shape[1]], keys.gather(1, behind)], dim=1)


def _mask_targets(masks: Tensor, boxes: Tensor, objects: Tensor, side: int) -> Tensor:
    """Bitmaps of the matched objects, cut out and resized: (images x regions) x side x side."""
    first = torch.arange(masks.shape[0], device=masks.device)[:, None] * masks.shape[1]
    regions = torch.cat([(first + objects)[..., None].to(boxes.dtype), boxes], dim=2).flatten(0, 1)
    found: Tensor = roi_align(masks.flatten(0, 1)[:, None].to(boxes.dtype), regions, (side, side), 1.0)
    return found[:, 0]
