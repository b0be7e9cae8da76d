"""Choices of a detector on tensors of fixed shapes: matching, sampling and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.library import custom_op
from torch.nn import functional
from torchvision.ops import nms

_WORD = 32
_NEVER = 2.0
"""A key above all random ones."""


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Rows of images x rows x width, by images x picked."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[2]))


def take(values: Tensor, index: Tensor) -> Tensor:
    """Of images x rows."""
    return values.gather(1, index)


def overlap(objects: Tensor, boxes: Tensor, is_real: Tensor) -> Tensor:
    """Intersection over union, images x objects x boxes; -1 for an empty place."""
    shared = _intersection(objects[:, :, None], boxes[:, None])
    union = _area(objects)[:, :, None] + _area(boxes)[:, None] - shared
    return torch.where(is_real[..., None], shared / union, -1.0)


def _intersection(one: Tensor, other: Tensor) -> Tensor:
    low, high = torch.maximum(one[..., :2], other[..., :2]), torch.minimum(one[..., 2:], other[..., 2:])
    sides = (high - low).clamp_min(0)
    return sides[..., 0] * sides[..., 1]


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def assign(shared: Tensor, is_real: Tensor, *, low: float, high: float, takes_best: bool) -> tuple[Tensor, Tensor]:
    """For each box 1 (object), 0 (background) or -1 (neither), and the object that it overlaps most.

    `takes_best`: the boxes that overlap an object most belong to it, however little that is.
    """
    best, matched = shared.max(dim=1)
    labels = torch.where(best >= high, 1, torch.where(best < low, 0, -1))
    if takes_best:
        is_best = (shared == shared.amax(dim=2, keepdim=True)) & is_real[..., None]
        labels = torch.where(is_best.any(dim=1), 1, labels)
    return labels, matched


class Chosen(NamedTuple):
    """Indices, images x places, and which places are taken."""

    positive: Tensor
    is_positive: Tensor
    negative: Tensor
    is_negative: Tensor

    def as_places(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same without a gap between both kinds: indices, which are used, and the number of positives."""
        num_positive = self.is_positive.sum(1)
        place = torch.arange(self.negative.shape[1], device=self.negative.device)[None]
        behind = (place - num_positive[:, None]).clamp_min(0)
        first = self.positive.gather(1, place.clamp_max(self.positive.shape[1] - 1).expand_as(self.negative))
        is_first = place < num_positive[:, None]
        index = torch.where(is_first, first, self.negative.gather(1, behind))
        return index, is_first | self.is_negative.gather(1, behind), num_positive


def sample(labels: Tensor, keys: Tensor, sampler: Any) -> Chosen:
    """Those with the smallest keys, as `KeyedSampler` takes them."""
    num_all = min(sampler.batch_size_per_image, labels.shape[1])
    num_positive = min(int(sampler.batch_size_per_image * sampler.positive_fraction), labels.shape[1])
    high, positive = torch.where(labels >= 1, keys, _NEVER).topk(num_positive, dim=1, largest=False)
    is_positive = high < _NEVER
    low, negative = torch.where(labels == 0, keys, _NEVER).topk(num_all, dim=1, largest=False)
    rank = torch.arange(num_all, device=labels.device)
    is_wanted = rank < sampler.batch_size_per_image - is_positive.sum(1, keepdim=True)
    return Chosen(positive, is_positive, negative, (low < _NEVER) & is_wanted)


def suppress(levels: Sequence[Tensor], *, min_side: float, threshold: float) -> list[Tensor]:
    """Which boxes survive among those of their image and level, images x boxes x 4 in the order of their scores."""
    valid = [((boxes[..., 2:] - boxes[..., :2]) >= min_side).all(-1) for boxes in levels]
    if not levels[0].is_cuda:
        return [_suppress_on_host(boxes, fits, threshold) for boxes, fits in zip(levels, valid, strict=True)]
    from trainmark.workloads.mask_rcnn.torch_kernel import scan

    num_images, counts = levels[0].shape[0], [boxes.shape[1] for boxes in levels]
    num_words = 1
    while num_words * _WORD < max(counts):
        num_words *= 2  # Triton's blocks are powers of 2
    length = num_words * _WORD
    boxes = torch.cat([functional.pad(part, (0, 0, 0, length - part.shape[1])) for part in levels])
    fits = torch.cat([functional.pad(part, (0, length - part.shape[1])) for part in valid])
    kept = scan(_overlap_bits(boxes, threshold), fits.to(torch.uint8))
    is_kept = ((kept[..., None] >> torch.arange(_WORD, device=kept.device)) & 1).flatten(1) != 0
    parts = is_kept.split(num_images)
    return [part[:, :count] for part, count in zip(parts, counts, strict=True)]


def _overlap_bits(boxes: Tensor, threshold: float) -> Tensor:
    """Bit k of word w of box i: box 32 w + k comes before box i and overlaps it by more than the threshold."""
    shared = _intersection(boxes[:, :, None], boxes[:, None])
    area = _area(boxes)
    is_over = shared / (area[:, :, None] + area[:, None] - shared) > threshold
    number = torch.arange(boxes.shape[1], device=boxes.device)
    is_before = number[None, :] < number[:, None]
    bits = (is_over & is_before).unflatten(2, (-1, _WORD)).to(torch.int32)
    words: Tensor = (bits << torch.arange(_WORD, device=boxes.device, dtype=torch.int32)).sum(-1, dtype=torch.int32)
    return words


@custom_op("trainmark::suppress_on_host", mutates_args=())
def _suppress_on_host(boxes: Tensor, fits: Tensor, threshold: float) -> Tensor:
    kept = torch.zeros_like(fits)
    for number, (own, is_valid) in enumerate(zip(boxes, fits, strict=True)):
        places = torch.where(is_valid)[0]
        order = torch.arange(len(places), 0, -1, device=own.device, dtype=own.dtype)  # the first has the highest
        kept[number, places[nms(own[places], order, threshold)]] = True
    return kept


@_suppress_on_host.register_fake
def _as_suppressed(_boxes: Tensor, fits: Tensor, _threshold: float) -> Tensor:
    return torch.empty_like(fits)
