"""The label ids of `*_gtFine_labelIds.png`, and which of them are trained."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IGNORED = 255

# The index is the id.
NAMES = (
    "unlabeled", "ego vehicle", "rectification border", "out of roi", "static", "dynamic", "ground", "road", "sidewalk",
    "parking", "rail track", "building", "wall", "fence", "guard rail", "bridge", "tunnel", "pole", "polegroup",
    "traffic light", "traffic sign", "vegetation", "terrain", "sky", "person", "rider", "car", "truck", "bus",
    "caravan", "trailer", "train", "motorcycle", "bicycle",
)  # fmt: skip

# The index is the train id; same order as the ids.
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
"""Maps label ids to train ids, for all values of a byte; IGNORED for ids that are not trained."""


def unknown_ids(ids: npt.NDArray[np.uint8]) -> list[int]:
    """Ids that Cityscapes does not define; one pass if there are none."""
    return np.unique(ids[ids >= len(NAMES)]).tolist() if ids.max(initial=0) >= len(NAMES) else []
