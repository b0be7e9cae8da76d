"""The region proposal network in Paddle. What has no gradient (decoding, NMS, matching, sampling) is on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle import Tensor, nn
from paddle.nn import functional
from paddle.vision.ops import nms

from trainmark.workloads.mask_rcnn import boxes as box_maths
from trainmark.workloads.mask_rcnn.boxes import Boxes
from trainmark.workloads.paddle import at_least_float
from trainmark.workloads.paddle_layers import convolution, fill_normal

_SIZES = (32, 64, 128, 256, 512)
_RATIOS = (0.5, 1.0, 2.0)
_WEIGHTS = (1.0, 1.0, 1.0, 1.0)
_NUM_SAMPLED, _POSITIVE_SHARE = 256, 0.5
_NUM_BEFORE, _NUM_AFTER = {True: 2000, False: 1000}, {True: 2000, False: 1000}
"""Proposals before and after NMS, in training and not."""
_NMS_OVERLAP = 0.7
_MIN_SIDE = 1e-3
_BETA = 1 / 9


class ProposalHead(nn.Layer):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Sequential(convolution(channels, channels, 3, bias=True), nn.ReLU()))
        self.cls_logits = convolution(channels, len(_RATIOS), 1, bias=True)
        self.bbox_pred = convolution(channels, 4 * len(_RATIOS), 1, bias=True)
        for layer in (self.conv[0][0], self.cls_logits, self.bbox_pred):
            fill_normal(layer.weight, 0.01)
            layer.bias.set_value(paddle.zeros_like(layer.bias))

    def forward(self, features: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Of each level, n x anchors logits and n x anchors x 4 offsets; anchors go by row, column, ratio."""
        logits, offsets = [], []
        for feature in features:
            x = self.conv(feature)
            num = x.shape[0]
            logits.append(at_least_float(self.cls_logits(x)).transpose([0, 2, 3, 1]).reshape([num, -1]))
            moved = at_least_float(self.bbox_pred(x))
            moved = moved.reshape([num, len(_RATIOS), 4, *moved.shape[2:]]).transpose([0, 3, 4, 1, 2])
            offsets.append(moved.reshape([num, -1, 4]))
        return logits, offsets


class Proposals(nn.Layer):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.head = ProposalHead(channels)

    def forward(
        self, features: list[Tensor], batch_size: tuple[int, int], sizes: list[tuple[int, int]], targets: Any
    ) -> tuple[list[Boxes], dict[str, Tensor]]:
        logits, offsets = self.head(features)
        grids = [(feature.shape[2], feature.shape[3]) for feature in features]
        levels = [_anchors(side, grid, batch_size) for side, grid in zip(_SIZES, grids, strict=True)]
        found = self._find([x.numpy() for x in logits], [x.numpy() for x in offsets], levels, sizes)
        if targets is None:
            return found, {}
        anchors = np.concatenate(levels)
        return found, _losses(paddle.concat(logits, axis=1), paddle.concat(offsets, axis=1), anchors, targets)

    def _find(
        self, logits: list[NDArray[Any]], offsets: list[NDArray[Any]], levels: list[Boxes], sizes: list[tuple[int, int]]
    ) -> list[Boxes]:
        pairs = [self._find_in(image, logits, offsets, levels, size) for image, size in enumerate(sizes)]
        if not self.training:
            return [boxes for boxes, _ in pairs]
        # NVIDIA's configuration shares the proposals among the device's batch.
        together = np.concatenate([scores for _, scores in pairs])
        kept = np.zeros(len(together), dtype=bool)
        kept[np.argsort(-together, kind="stable")[: _NUM_AFTER[True]]] = True
        parts = np.split(kept, np.cumsum([len(scores) for _, scores in pairs])[:-1])
        return [boxes[chosen] for (boxes, _), chosen in zip(pairs, parts, strict=True)]

    def _find_in(
        self,
        image: int,
        logits: list[NDArray[Any]],
        offsets: list[NDArray[Any]],
        levels: list[Boxes],
        size: tuple[int, int],
    ) -> tuple[Boxes, NDArray[Any]]:
        """The best boxes of one image and their scores, best first."""
        kept: list[tuple[Boxes, NDArray[Any]]] = []
        for level, anchors in enumerate(levels):
            order = np.argsort(-logits[level][image], kind="stable")[: _NUM_BEFORE[self.training]]
            scores = 1 / (1 + np.exp(-logits[level][image][order]))
            moved = box_maths.decode(offsets[level][image][order], anchors[order], _WEIGHTS)
            boxes = box_maths.clip(moved, size)
            large = box_maths.is_large(boxes, _MIN_SIDE)
            boxes, scores = boxes[large], scores[large]
            chosen = suppress(boxes, scores, _NMS_OVERLAP)
            kept.append((boxes[chosen], scores[chosen]))
        boxes, scores = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        best = np.argsort(-scores, kind="stable")[: _NUM_AFTER[self.training]]
        return boxes[best], scores[best]


def suppress(boxes: Boxes, scores: NDArray[Any], overlap: float) -> NDArray[np.int64]:
    """Which boxes remain of those that overlap more, best first."""
    if not len(boxes):
        return np.zeros(0, dtype=np.int64)
    kept: NDArray[np.int64] = nms(paddle.to_tensor(boxes), overlap, paddle.to_tensor(scores)).numpy()
    return kept


def _anchors(side: int, grid: tuple[int, int], batch_size: tuple[int, int]) -> Boxes:
    """Of one level; a ratio is height over width."""
    dtype = np.dtype(paddle.get_default_dtype())
    heights = np.sqrt(np.array(_RATIOS, dtype=np.float32))
    widths = 1 / heights
    cells = np.round(np.stack([-widths, -heights, widths, heights], axis=1) * np.float32(side) / 2).astype(dtype)
    strides = [whole // part for whole, part in zip(batch_size, grid, strict=True)]
    rows, columns = np.meshgrid(np.arange(grid[0]) * strides[0], np.arange(grid[1]) * strides[1], indexing="ij")
    shifts = np.stack([columns, rows, columns, rows], axis=2).reshape(-1, 1, 4).astype(dtype)
    return (shifts + cells[None]).reshape(-1, 4)


def _losses(logits: Tensor, offsets: Tensor, anchors: Boxes, targets: Any) -> dict[str, Tensor]:
    num = len(anchors)
    positives, taken, wanted, labels = [], [], [], []
    for image, target in enumerate(targets):
        kinds, boxes = _assign(anchors, target)
        keys = target.get("anchor_keys")
        chances = paddle.rand([num]).numpy() if keys is None else keys
        positive, negative = box_maths.sample(kinds, chances, num_wanted=_NUM_SAMPLED, positive_share=_POSITIVE_SHARE)
        chosen = np.flatnonzero(positive)
        positives.append(image * num + chosen)
        taken.append((image * num + chosen, image * num + np.flatnonzero(negative)))
        wanted.append(box_maths.encode(boxes[chosen], anchors[chosen], _WEIGHTS))
        labels.append(kinds)
    every = np.concatenate([part for pair in zip(*taken, strict=True) for part in pair])
    own = offsets.reshape([-1, 4]).index_select(paddle.to_tensor(np.concatenate(positives)))
    box = smooth_l1(own, paddle.to_tensor(np.concatenate(wanted)), beta=_BETA) / len(every)
    scores = logits.flatten().index_select(paddle.to_tensor(every))
    truth = paddle.to_tensor(np.concatenate(labels)[every]).astype(scores.dtype)
    return {
        "loss_objectness": functional.binary_cross_entropy_with_logits(scores, truth),
        "loss_rpn_box_reg": box,
    }


def _assign(anchors: Boxes, target: Any) -> tuple[NDArray[np.int64], Boxes]:
    """1 for objects, 0 for background, -1 for neither; and the box that each anchor should become."""
    truth: Boxes = target["boxes"]
    height, width = target["size"]
    if len(truth):
        matched = box_maths.match(truth, anchors, high=0.7, low=0.3, takes_best=True)
        kinds = np.where(matched >= 0, 1, np.where(matched == box_maths.BACKGROUND, 0, -1))
        boxes = truth[np.maximum(matched, 0)]
    else:
        kinds, boxes = np.zeros(len(anchors), dtype=np.int64), np.zeros_like(anchors)
    inside = (anchors[:, :2] >= 0).all(axis=1) & (anchors[:, 2] < width) & (anchors[:, 3] < height)
    return np.where(inside, kinds, -1), boxes


def smooth_l1(found: Tensor, wanted: Tensor, *, beta: float) -> Tensor:
    """Summed: quadratic up to `beta`, then linear."""
    distance = (found - wanted).abs()
    return paddle.where(distance < beta, 0.5 * distance.square() / beta, distance - 0.5 * beta).sum()
