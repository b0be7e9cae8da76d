"""Mask R-CNN R50-FPN from torchvision's parts, in two public variants, and boxes that stay in float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models.detection._utils import BalancedPositiveNegativeSampler
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.roi_heads import RoIHeads
from torchvision.models.detection.rpn import RegionProposalNetwork, RPNHead
from torchvision.models.detection.transform import GeneralizedRCNNTransform
from torchvision.ops import MultiScaleRoIAlign

from trainmark.workloads.mask_rcnn.data import MEAN, SIDE_MULTIPLE, STD, longest_side, ngc_size, torchvision_size
from trainmark.workloads.mask_rcnn.torch_ngc import NgcHeads, NgcProposals, move_strides
from trainmark.workloads.mask_rcnn.torch_norm import FrozenNorm, calibrate
from trainmark.workloads.torch import at_least_float32, normalise

Target = dict[str, Any]
"""`boxes` N x 4 (left, top, right, bottom in pixels), `labels` N from 1, `masks` N x height x width of 0 and 1.

In a batch also `size`, the (height, width) of the image without padding; in a parity check `anchor_keys` and
`region_keys`, which decide what is sampled.
"""
InputSize = Callable[[int, int, int], tuple[int, int]]
"""Of an image's height, its width and the wanted short side."""

_FPN_CHANNELS = 256
_LEVELS = ("0", "1", "2", "3")
"""P2 to P5, from which regions are pooled; P6 is only for the RPN."""
_ANCHOR_SIZES = ((32,), (64,), (128,), (256,), (512,))
_RATIOS = (0.5, 1.0, 2.0)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One public configuration: how pixels and sizes become inputs, and which parts differ."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    """Of red, green and blue, for values 0 to 1."""
    is_bgr: bool
    input_size: InputSize
    proposals: type[RegionProposalNetwork]
    heads: type[RoIHeads]
    has_stride_in_1x1: bool

    @property
    def spread(self) -> float:
        """About the standard deviation of a normalised photograph."""
        return sum(typical / own for typical, own in zip(STD, self.std, strict=True)) / 3


VARIANTS = {
    "reference": Variant(
        mean=(122.7717 / 255, 115.9465 / 255, 102.9801 / 255),
        std=(1 / 255, 1 / 255, 1 / 255),
        is_bgr=True,
        input_size=ngc_size,
        proposals=NgcProposals,
        heads=NgcHeads,
        has_stride_in_1x1=True,
    ),
    "torchvision": Variant(
        mean=MEAN,
        std=STD,
        is_bgr=False,
        input_size=torchvision_size,
        proposals=RegionProposalNetwork,
        heads=RoIHeads,
        has_stride_in_1x1=False,
    ),
}
VARIANTS["fast"] = VARIANTS["reference"]
"""By recipe: NVIDIA's configuration, which the seed measures, and torchvision's."""


def build_mask_rcnn(
    *, kind: type[RecipeRCNN], variant: Variant, num_outputs: int, short_side: int, num_regions: int
) -> RecipeRCNN:
    """`num_outputs` counts the background; `num_regions` are sampled per image to train on.

    Weights are random; the frozen statistics are measured on noise.
    """
    backbone = resnet_fpn_backbone(
        backbone_name="resnet50",
        weights=None,
        norm_layer=FrozenNorm,
        trainable_layers=3,  # the stem and res2 stay as they are
    )
    if variant.has_stride_in_1x1:
        move_strides(backbone)
    calibrate(backbone, spread=variant.spread)
    model = kind(
        backbone,
        variant.proposals(**_rpn()),
        variant.heads(**_box_head(num_outputs, num_regions), **_mask_head(num_outputs)),
        Transform(variant, short_side),
    )
    for part in (model.rpn, model.roi_heads):
        plain = part.fg_bg_sampler
        part.fg_bg_sampler = KeyedSampler(plain.batch_size_per_image, plain.positive_fraction)
    _initialise_heads(model)
    return model


def _initialise_heads(model: RecipeRCNN) -> None:
    """The last layers start near zero, so that the first losses are those of a random guess.

    Classes and boxes as in the seed. The mask's last layer differs: the seed's scale grows with fewer classes, and with
    the five of a small data set the first mask loss would be ten times its usual value and the training would diverge.
    """
    heads = model.roi_heads
    last = ((heads.box_predictor.cls_score, 0.01), (heads.box_predictor.bbox_pred, 0.001))
    for layer, scale in (*last, (heads.mask_predictor.mask_fcn_logits, 0.001)):
        nn.init.normal_(layer.weight, std=scale)
        nn.init.zeros_(layer.bias)


class RecipeRCNN(GeneralizedRCNN):  # type: ignore[misc]
    """torchvision's stages in torchvision's order, without its search for bad boxes, which waits for the device."""

    def forward(self, images: list[Tensor], targets: list[Target] | None = None) -> Any:
        """In training the losses and the pyramid's features by name; else one dict of detections per image."""
        batch, resized = self.transform(images, targets)
        if targets is not None:
            self.rpn.fg_bg_sampler.keys = _keys(targets, "anchor_keys")
            self.roi_heads.fg_bg_sampler.keys = _keys(targets, "region_keys")
        features = self.backbone(batch.tensors)
        proposals, proposal_losses = self.rpn(batch, features, resized)
        detections, detector_losses = self.roi_heads(features, proposals, batch.image_sizes, resized)
        if self.training:
            return {**proposal_losses, **detector_losses}, features
        sizes = [(image.shape[0], image.shape[1]) for image in images]
        return self.transform.postprocess(detections, batch.image_sizes, sizes)


def _keys(targets: list[Target], name: str) -> list[Tensor] | None:
    return [target[name] for target in targets] if targets and name in targets[0] else None


class KeyedSampler(BalancedPositiveNegativeSampler):  # type: ignore[misc]
    """torchvision's own, unless the choice is handed in: a number for each candidate, of which the smallest are taken.

    So that all frameworks of a parity check take the same anchors and regions. There may be more numbers than
    candidates.
    """

    keys: list[Tensor] | None = None

    def __call__(self, matched_idxs: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        if self.keys is None:
            taken: tuple[list[Tensor], list[Tensor]] = super().__call__(matched_idxs)
            return taken
        pairs = [self._take(labels, keys) for labels, keys in zip(matched_idxs, self.keys, strict=True)]
        return [positive for positive, _ in pairs], [negative for _, negative in pairs]

    def _take(self, labels: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        positive = _smallest(keys, labels >= 1, int(self.batch_size_per_image * self.positive_fraction))
        negative = _smallest(keys, labels == 0, self.batch_size_per_image - int(positive.sum()))
        return positive, negative


def _smallest(keys: Tensor, is_candidate: Tensor, num_wanted: int) -> Tensor:
    """Which candidates have the smallest keys, as bytes of 0 and 1."""
    candidates = torch.where(is_candidate)[0]
    order = keys[: len(is_candidate)][candidates].argsort()
    taken = torch.zeros_like(is_candidate, dtype=torch.uint8)
    taken[candidates[order[:num_wanted]]] = 1
    return taken


def _rpn() -> dict[str, Any]:
    anchors = Anchors(sizes=_ANCHOR_SIZES, aspect_ratios=(_RATIOS,) * len(_ANCHOR_SIZES))
    return {
        "anchor_generator": anchors,
        "head": FloatRPNHead(_FPN_CHANNELS, len(_RATIOS)),
        "fg_iou_thresh": 0.7,
        "bg_iou_thresh": 0.3,
        "batch_size_per_image": 256,
        "positive_fraction": 0.5,
        "pre_nms_top_n": {"training": 2000, "testing": 1000},
        "post_nms_top_n": {"training": 2000, "testing": 1000},
        "nms_thresh": 0.7,
    }


def _box_head(num_outputs: int, num_regions: int) -> dict[str, Any]:
    return {
        "box_roi_pool": MultiScaleRoIAlign(featmap_names=list(_LEVELS), output_size=7, sampling_ratio=2),
        "box_head": TwoMLPHead(_FPN_CHANNELS * 7 * 7, 1024),
        "box_predictor": FloatPredictor(1024, num_outputs),
        "fg_iou_thresh": 0.5,
        "bg_iou_thresh": 0.5,
        "batch_size_per_image": num_regions,
        "positive_fraction": 0.25,
        "bbox_reg_weights": (10.0, 10.0, 5.0, 5.0),
        "score_thresh": 0.05,
        "nms_thresh": 0.5,
        "detections_per_img": 100,
    }


def _mask_head(num_outputs: int) -> dict[str, Any]:
    return {
        "mask_roi_pool": MultiScaleRoIAlign(featmap_names=list(_LEVELS), output_size=14, sampling_ratio=2),
        "mask_head": MaskRCNNHeads(_FPN_CHANNELS, (256, 256, 256, 256), 1),
        "mask_predictor": MaskRCNNPredictor(256, 256, num_outputs),
    }


class Transform(GeneralizedRCNNTransform):  # type: ignore[misc]
    """Bytes to a padded, normalised batch. torchvision's own waits for a copy to the device for each image.

    Takes images as height x width x 3 bytes; converting detections back to the image's pixels is torchvision's.
    """

    def __init__(self, variant: Variant, short_side: int) -> None:
        super().__init__(short_side, longest_side(short_side), list(variant.mean), list(variant.std), SIDE_MULTIPLE)
        self._variant, self._short_side = variant, short_side

    def forward(
        self, images: list[Tensor], targets: list[Target] | None = None
    ) -> tuple[ImageList, list[Target] | None]:
        find = self._variant.input_size
        sizes = [find(image.shape[0], image.shape[1], self._short_side) for image in images]
        height, width = (-(-max(sides) // SIDE_MULTIPLE) * SIDE_MULTIPLE for sides in zip(*sizes, strict=True))
        batch = torch.zeros((len(images), 3, height, width), device=images[0].device)
        for place, image, size in zip(batch, images, sizes, strict=True):
            place[:, : size[0], : size[1]] = _resized(self._planes(image), size, mode="bilinear")
        if targets is not None:
            pairs = zip(targets, images, sizes, strict=True)
            targets = [_resized_target(target, image.shape[:2], size) for target, image, size in pairs]
        return ImageList(batch, sizes), targets

    def _planes(self, image: Tensor) -> Tensor:
        planes = normalise(image, self._variant.mean, self._variant.std)
        return planes.flip(0) if self._variant.is_bgr else planes


def _resized(planes: Tensor, size: tuple[int, int], *, mode: str) -> Tensor:
    if planes.shape[-2:] == size:
        return planes
    options = {"align_corners": False} if mode == "bilinear" else {}
    return functional.interpolate(planes[None], size=size, mode=mode, **options)[0]


def _resized_target(target: Target, old: torch.Size, new: tuple[int, int]) -> Target:
    down, right = new[0] / old[0], new[1] / old[1]
    columns = [side * scale for side, scale in zip(target["boxes"].unbind(1), (right, down) * 2, strict=True)]
    masks = target["masks"]
    if len(masks):
        masks = _resized(masks, new, mode="nearest")
    return {**target, "boxes": torch.stack(columns, dim=1), "masks": masks, "size": new}


class Anchors(AnchorGenerator):  # type: ignore[misc]
    """In float32 for features of half precision: bfloat16 would place them on a grid of four pixels."""

    def set_cell_anchors(self, dtype: torch.dtype, device: torch.device) -> None:
        super().set_cell_anchors(torch.promote_types(dtype, torch.float32), device)


class FloatRPNHead(RPNHead):  # type: ignore[misc]
    """Offsets in float32: torchvision converts the anchors to the offsets' type before adding them."""

    def forward(self, x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        logits, offsets = super().forward(x)
        return [at_least_float32(level) for level in logits], [at_least_float32(level) for level in offsets]


class FloatPredictor(FastRCNNPredictor):  # type: ignore[misc]
    """As `FloatRPNHead`, for the boxes of the second stage."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores, offsets = super().forward(x)
        return at_least_float32(scores), at_least_float32(offsets)
