"""The parts of Mask R-CNN in Paddle against torchvision's: boxes, matches, pooling and pasted masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torchvision.models.detection._utils import BoxCoder, Matcher
from torchvision.models.detection.roi_heads import paste_masks_in_image
from torchvision.ops import MultiScaleRoIAlign

from trainmark.workloads.mask_rcnn import boxes

pytest.importorskip("paddle")

WEIGHTS = (10.0, 10.0, 5.0, 5.0)


def random_boxes(rng: np.random.Generator, num: int, side: float) -> np.ndarray[Any, Any]:
    corners = rng.uniform(0, side / 2, (num, 2))
    return np.concatenate([corners, corners + rng.uniform(2, side / 2, (num, 2))], axis=1)


def test_offsets_lead_to_the_wanted_boxes_as_in_torchvision() -> None:
    rng = np.random.default_rng(0)
    given, wanted = random_boxes(rng, 20, 100), random_boxes(rng, 20, 100)
    coder = BoxCoder(WEIGHTS)
    expected = coder.encode([torch.tensor(wanted)], [torch.tensor(given)])[0].numpy()
    offsets = boxes.encode(wanted, given, WEIGHTS)
    np.testing.assert_allclose(offsets, expected, rtol=1e-12)
    np.testing.assert_allclose(boxes.decode(offsets, given, WEIGHTS), wanted, rtol=1e-12)
    several = rng.normal(size=(20, 12)) * 20  # three classes, some stretched beyond the limit
    decoded = coder.decode(torch.tensor(several), [torch.tensor(given)]).numpy()
    np.testing.assert_allclose(boxes.decode(several, given, WEIGHTS), decoded.reshape(20, 12), rtol=1e-12)


@pytest.mark.parametrize("takes_best", [False, True])
def test_matches_are_torchvision_s(takes_best: bool) -> None:
    rng = np.random.default_rng(1)
    truth, found = random_boxes(rng, 4, 100), random_boxes(rng, 300, 100)
    found[:3] = found[3:6]  # ties
    quality = torch.tensor(boxes.overlaps(truth, found))
    expected = Matcher(0.7, 0.3, allow_low_quality_matches=takes_best)(quality.clone()).numpy()
    matched = boxes.match(truth, found, high=0.7, low=0.3, takes_best=takes_best)
    np.testing.assert_array_equal(matched, expected)
    assert {boxes.BACKGROUND, boxes.IGNORED} <= set(matched.tolist())


def test_a_sample_has_the_smallest_keys_and_no_more_positives_than_allowed() -> None:
    labels, keys = np.array([1, 0, 2, 0, -1, 3, 0]), np.array([0.9, 0.8, 0.1, 0.7, 0.0, 0.5, 0.2, 0.3])
    positive, negative = boxes.sample(labels, keys, num_wanted=4, positive_share=0.5)
    assert np.flatnonzero(positive).tolist() == [2, 5]
    assert np.flatnonzero(negative).tolist() == [3, 6]


def test_regions_are_pooled_from_the_level_that_torchvision_takes() -> None:
    import paddle

    from trainmark.workloads.mask_rcnn.paddle_heads import pool

    rng = np.random.default_rng(2)
    levels = [rng.normal(size=(2, 3, 512 // stride, 512 // stride)) for stride in (4, 8, 16, 32)]
    regions = [random_boxes(rng, 6, 900), random_boxes(rng, 9, 200)]
    own = MultiScaleRoIAlign([str(n) for n in range(4)], 7, 2)
    features = {str(number): torch.tensor(level) for number, level in enumerate(levels)}
    expected = own(features, [torch.tensor(part) for part in regions], [(512, 512)] * 2).numpy()
    found = pool([paddle.to_tensor(level) for level in levels], regions, 7).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_a_mask_is_pasted_as_torchvision_does_it() -> None:
    from trainmark.workloads.mask_rcnn.paddle import _paste

    rng = np.random.default_rng(3)
    places = np.array([[3.2, 4.7, 20.1, 30.9], [-2.0, -3.0, 10.0, 12.0], [30.0, 20.0, 52.5, 41.0], [5, 5, 5.4, 5.2]])
    masks = rng.random((len(places), 28, 28))
    expected = paste_masks_in_image(torch.tensor(masks)[:, None], torch.tensor(places), (40, 50))[:, 0] > 0.5
    for mask, box, wanted in zip(masks, places, expected.numpy(), strict=True):
        image = np.zeros((40, 50), dtype=np.uint8)
        _paste(mask, box, image)
        assert (image.astype(bool) == wanted).mean() > 0.999
        assert image.any() == wanted.any()
