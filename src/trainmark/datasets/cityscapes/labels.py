"""Cityscapes' label ids: what stands in `*_gtFine_labelIds.png`, and which of them are trained."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IGNORED = 255

# In the order of their ids, which count from 0.
NAMES = (
    "unlabeled", "ego vehicle", "rectification border", "out of roi", "static", "dynamic", "ground", "road", "sidewalk",
    "parking", "rail track", "building", "wall", "fence", "guard rail", "bridge", "tunnel", "pole", "polegroup",
    "traffic light", "traffic sign", "vegetation", "terrain", "sky", "person", "rider", "car", "truck", "bus",
    "caravan", "trailer", "train", "motorcycle", "bicycle",
)  # fmt: skip

# In the order of their train ids, which is that of their ids.
CLASSES = (
    "road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign", "vegetation", "terrain",
    "sky", "person", "rider", "car", "truck", "bus", "train", "motorcycle", "bicycle",
)  # fmt: skip

ID_OF = {name: number for number, name in enumerate(NAMES)}


def _build_table() -> npt.NDArray[np.uint8]:
    table = np.full(256, IGNORED, np.uint8)
    for train_id, name in enumerate(CLASSES):
        table[ID_OF[name]] = train_id
    table.setflags(write=False)
    return table


TRAIN_IDS = _build_table()
"""Label id to train id, for all values of a byte; all that is not trained is IGNORED."""


def unknown_ids(ids: npt.NDArray[np.uint8]) -> list[int]:
    """Numbers in a label that Cityscapes does not have; for a good label this costs one pass."""
    return np.unique(ids[ids >= len(NAMES)]).tolist() if ids.max(initial=0) >= len(NAMES) else []
