"""What Mask R-CNN does with each region in Paddle: class, box and mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle import Tensor, nn
from paddle.nn import functional
from paddle.vision.ops import roi_align

from trainmark.workloads.mask_rcnn import boxes as box_maths
from trainmark.workloads.mask_rcnn.boxes import Boxes
from trainmark.workloads.mask_rcnn.paddle_proposals import smooth_l1, suppress
from trainmark.workloads.paddle import at_least_float, sum_pixels
from trainmark.workloads.paddle_layers import convolution, fill_normal, initialise_default, initialise_he

_WEIGHTS = (10.0, 10.0, 5.0, 5.0)
_POSITIVE_SHARE = 0.25
_MIN_OVERLAP = 0.5
_BOX_SIDE, _MASK_SIDE = 7, 14
_STRIDES = (4, 8, 16, 32)
_BETA = 1.0
_MIN_SCORE, _NMS_OVERLAP, _MAX_FOUND = 0.05, 0.5, 100


class BoxHead(nn.Layer):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.fc6, self.fc7 = nn.Linear(inputs, width), nn.Linear(width, width)
        initialise_default(self)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.fc7(functional.relu(self.fc6(x.flatten(1)))))


class BoxPredictor(nn.Layer):
    def __init__(self, width: int, num_outputs: int) -> None:
        super().__init__()
        self.cls_score, self.bbox_pred = nn.Linear(width, num_outputs), nn.Linear(width, 4 * num_outputs)
        for layer, scale in ((self.cls_score, 0.01), (self.bbox_pred, 0.001)):
            _start_small(layer, scale)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return at_least_float(self.cls_score(x)), at_least_float(self.bbox_pred(x))


class MaskPredictor(nn.Layer):
    def __init__(self, channels: int, num_outputs: int) -> None:
        super().__init__()
        self.conv5_mask = nn.Conv2DTranspose(channels, channels, 2, stride=2)
        fill_normal(self.conv5_mask.weight, (2 / (channels * 4)) ** 0.5)
        self.mask_fcn_logits = convolution(channels, num_outputs, 1, bias=True)
        _start_small(self.mask_fcn_logits, 0.001)

    def forward(self, x: Tensor) -> Tensor:
        return self.mask_fcn_logits(functional.relu(self.conv5_mask(x)))


class RegionHeads(nn.Layer):
    def __init__(self, channels: int, *, num_outputs: int, num_regions: int) -> None:
        super().__init__()
        self._num_regions = num_regions
        self.box_head = BoxHead(channels * _BOX_SIDE**2, 1024)
        self.box_predictor = BoxPredictor(1024, num_outputs)
        layers = [nn.Sequential(convolution(channels, channels, 3, bias=True), nn.ReLU()) for _ in range(4)]
        self.mask_head = nn.Sequential(*layers)
        initialise_he(self.mask_head)
        for layer in layers:
            layer[0].bias.set_value(paddle.zeros_like(layer[0].bias))
        self.mask_predictor = MaskPredictor(channels, num_outputs)

    def losses(self, features: list[Tensor], proposals: list[Boxes], targets: Any) -> dict[str, Tensor]:
        chosen = [self._choose(found, target) for found, target in zip(proposals, targets, strict=True)]
        boxes, matched, labels = (list(parts) for parts in zip(*chosen, strict=True))
        scores, offsets = self.box_predictor(self.box_head(pool(features, boxes, _BOX_SIDE)))
        classes = np.concatenate(labels)
        positive = np.flatnonzero(classes > 0)
        wanted = np.concatenate(
            [
                box_maths.encode(_true_boxes(target)[index], own, _WEIGHTS)
                for target, index, own in zip(targets, matched, boxes, strict=True)
            ]
        )
        own_offsets = offsets.reshape([-1, 4]).index_select(
            paddle.to_tensor(positive * (offsets.shape[1] // 4) + classes[positive])
        )
        box = smooth_l1(own_offsets, paddle.to_tensor(wanted[positive]), beta=_BETA) / len(classes)
        return {
            "loss_classifier": functional.cross_entropy(scores, paddle.to_tensor(classes)),
            "loss_box_reg": box,
            "loss_mask": self._mask_loss(features, boxes, matched, labels, targets),
        }

    def _choose(self, proposals: Boxes, target: Any) -> tuple[Boxes, NDArray[np.int64], NDArray[np.int64]]:
        """Regions to train on, the object that each belongs to, and its class; the objects are candidates too."""
        truth: Boxes = target["boxes"].astype(proposals.dtype)
        boxes = np.concatenate([proposals, truth])
        matched, labels = np.zeros(len(boxes), dtype=np.int64), np.zeros(len(boxes), dtype=np.int64)
        if len(truth):
            found = box_maths.match(truth, boxes, high=_MIN_OVERLAP, low=_MIN_OVERLAP, takes_best=False)
            matched = np.maximum(found, 0)
            labels = np.where(found == box_maths.BACKGROUND, 0, target["labels"][matched])
        keys = target.get("region_keys")
        chances = paddle.rand([len(boxes)]).numpy() if keys is None else keys
        positive, negative = box_maths.sample(
            labels, chances, num_wanted=self._num_regions, positive_share=_POSITIVE_SHARE
        )
        taken = np.flatnonzero(positive | negative)
        return boxes[taken], matched[taken], labels[taken]

    def _mask_loss(
        self, features: list[Tensor], boxes: list[Boxes], matched: list[Any], labels: list[Any], targets: Any
    ) -> Tensor:
        positives = [np.flatnonzero(part > 0) for part in labels]
        outlined = [part[index] for part, index in zip(boxes, positives, strict=True)]
        if not sum(map(len, outlined)):
            # No region has an object: 0, with gradients of 0 for all weights, so that no process waits for another.
            pooled = pool(features, [part[:1] for part in boxes], _MASK_SIDE)
            return at_least_float(self.mask_predictor(self.mask_head(pooled))).sum() * 0
        maps = at_least_float(self.mask_predictor(self.mask_head(pool(features, outlined, _MASK_SIDE))))
        classes = np.concatenate([part[index] for part, index in zip(labels, positives, strict=True)])
        num, outputs, side = maps.shape[:3]
        own = maps.reshape([num * outputs, side, side]).index_select(
            paddle.to_tensor(np.arange(num) * outputs + classes)
        )
        wanted = [
            _cut_masks(target["masks"], part, index[chosen], side)
            for target, part, index, chosen in zip(targets, outlined, matched, positives, strict=True)
            if len(part)
        ]
        masks = paddle.concat(wanted).astype(own.dtype)
        losses = functional.binary_cross_entropy_with_logits(own, masks, reduction="none")
        return sum_pixels(losses).sum() / losses.size

    def detect(self, features: list[Tensor], proposals: list[Boxes], sizes: list[tuple[int, int]]) -> list[Any]:
        """One dict of numpy arrays per image: boxes, scores, labels, and masks as probabilities of 28 x 28."""
        scores, offsets = self.box_predictor(self.box_head(pool(features, proposals, _BOX_SIDE)))
        shares = functional.softmax(scores, axis=1).numpy()
        moved = box_maths.decode(offsets.numpy(), np.concatenate(proposals), _WEIGHTS)
        ends = np.cumsum([len(part) for part in proposals])[:-1]
        parts = zip(np.split(moved, ends), np.split(shares, ends), sizes, strict=True)
        found = [_detections(boxes, share, size) for boxes, share, size in parts]
        if sum(len(item["labels"]) for item in found):
            maps = self.mask_predictor(self.mask_head(pool(features, [item["boxes"] for item in found], _MASK_SIDE)))
            likely = functional.sigmoid(at_least_float(maps)).numpy()
            labels = np.concatenate([item["labels"] for item in found])
            own = likely[np.arange(len(labels)), labels]
            masks = np.split(own, np.cumsum([len(item["labels"]) for item in found])[:-1])
        else:
            masks = [np.zeros((0, 28, 28), np.float32) for _ in found]
        return [{**item, "masks": mask} for item, mask in zip(found, masks, strict=True)]


def _detections(boxes: Boxes, shares: NDArray[Any], size: tuple[int, int]) -> dict[str, NDArray[Any]]:
    num, outputs = shares.shape
    every = box_maths.clip(boxes.reshape(-1, 4), size).reshape(num, outputs, 4)[:, 1:].reshape(-1, 4)
    scores, labels = shares[:, 1:].reshape(-1), np.tile(np.arange(1, outputs), num)
    chosen = np.flatnonzero((scores > _MIN_SCORE) & box_maths.is_large(every, 1e-2))
    every, scores, labels = every[chosen], scores[chosen], labels[chosen]
    kept = [np.zeros(0, dtype=np.int64)]
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        kept.append(own[suppress(every[own], scores[own], _NMS_OVERLAP)])
    together = np.concatenate(kept)
    best = together[np.argsort(-scores[together], kind="stable")][:_MAX_FOUND]
    return {"boxes": every[best], "scores": scores[best], "labels": labels[best]}


def pool(features: list[Tensor], boxes: list[Boxes], side: int) -> Tensor:
    """From the level of the pyramid that fits the size of each region; regions in the order of the images."""
    sizes = np.sqrt(np.concatenate([box_maths.areas(part) for part in boxes]))
    with np.errstate(divide="ignore"):
        levels = np.clip(np.floor(4 + np.log2(sizes / 224) + 1e-6), 2, 5).astype(np.int64) - 2
    images = np.repeat(np.arange(len(boxes)), [len(part) for part in boxes])
    together = np.concatenate(boxes)
    parts, places = [], []
    for level, stride in enumerate(_STRIDES):
        own = np.flatnonzero(levels == level)
        if len(own):
            counts = np.bincount(images[own], minlength=len(boxes)).astype(np.int32)
            given = paddle.to_tensor(together[own]).astype(features[level].dtype)
            parts.append(
                roi_align(features[level], given, paddle.to_tensor(counts), side, 1 / stride, 2, aligned=False)
            )
            places.append(own)
    order = np.argsort(np.concatenate(places), kind="stable")
    return paddle.concat(parts).index_select(paddle.to_tensor(order))


def _cut_masks(masks: NDArray[Any], boxes: Boxes, matched: NDArray[np.int64], side: int) -> Tensor:
    """What each region should show: the part of its object's mask inside its box, resized."""
    order = np.argsort(matched, kind="stable")
    counts = np.bincount(matched, minlength=len(masks)).astype(np.int32)
    planes = paddle.to_tensor(masks[:, None].astype(boxes.dtype))
    cut = roi_align(planes, paddle.to_tensor(boxes[order]), paddle.to_tensor(counts), side, 1.0, -1, aligned=False)
    return cut[:, 0].index_select(paddle.to_tensor(np.argsort(order, kind="stable")))


def _true_boxes(target: Any) -> Boxes:
    """An image without objects has no positive region; any box stands for the missing ones."""
    boxes: Boxes = target["boxes"]
    return boxes if len(boxes) else np.array([[0, 0, 1, 1]], dtype=boxes.dtype)


def _start_small(layer: nn.Layer, scale: float) -> None:
    """The last layers start near zero, so that the first losses are those of a random guess."""
    fill_normal(layer.weight, scale)
    layer.bias.set_value(paddle.zeros_like(layer.bias))
