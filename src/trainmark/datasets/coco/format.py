"""The format `coco` of `trainmark data`."""

from __future__ import annotations

from pathlib import Path

from trainmark.datasets.coco.check import check_coco
from trainmark.datasets.coco.make import make_coco
from trainmark.datasets.coco.read import read_coco
from trainmark.datasets.formats import DatasetFormat, MakeRequest
from trainmark.datasets.report import MakeReport, Summary

_DEFAULT_NUM_IMAGES = 1250  # a thousand to train on and 250 to validate with; 140 MB


def _summarise(root: Path) -> Summary:
    folder = read_coco(root)
    num_val = len(folder.val.images) if folder.val is not None else 0
    return Summary(num_train=len(folder.train.images), num_val=num_val, num_classes=len(folder.categories))


def _make(root: Path, request: MakeRequest) -> MakeReport:
    return make_coco(
        root,
        num_images=_DEFAULT_NUM_IMAGES if request.num_samples is None else request.num_samples,
        num_classes=5 if request.num_classes is None else request.num_classes,
        val_fraction=0.2 if request.val_fraction is None else request.val_fraction,
        seed=request.seed or 0,
        num_workers=request.num_workers,
    )


FORMAT = DatasetFormat(
    name="coco",
    summary="train2017, val2017 and annotations/instances_*.json; makes textured objects with exact masks",
    options=frozenset({"num_samples", "num_classes", "val_fraction", "seed", "num_workers"}),
    make=_make,
    check=check_coco,
    summarise=_summarise,
)
