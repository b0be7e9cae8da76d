"""Where COCO keeps what: train2017/ and val2017/ with JPEG files, annotations/ with one JSON file for each."""

from __future__ import annotations

SPLITS = ("train2017", "val2017")
ANNOTATION_FOLDER = "annotations"


def annotation_file(split: str) -> str:
    """Relative to the data set's folder."""
    return f"{ANNOTATION_FOLDER}/instances_{split}.json"
