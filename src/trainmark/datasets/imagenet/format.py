"""The format `imagenet` of `trainmark data`."""

from __future__ import annotations

from pathlib import Path

from trainmark.datasets.formats import DatasetFormat, MakeRequest
from trainmark.datasets.imagenet.check import check_folder
from trainmark.datasets.imagenet.make import make_imagenet
from trainmark.datasets.imagenet.read import read_folder
from trainmark.datasets.report import MakeReport, Summary

_DEFAULT_NUM_IMAGES = 1250  # a thousand to train on and 250 to validate with; 125 MB


def summarise_folder(root: Path) -> Summary:
    folder = read_folder(root)
    num_val = len(folder.val.paths) if folder.val is not None else 0
    return Summary(num_train=len(folder.train.paths), num_val=num_val, num_classes=len(folder.classes))


def _make(root: Path, request: MakeRequest) -> MakeReport:
    return make_imagenet(
        root,
        num_images=_DEFAULT_NUM_IMAGES if request.num_samples is None else request.num_samples,
        num_classes=10 if request.num_classes is None else request.num_classes,
        val_fraction=0.2 if request.val_fraction is None else request.val_fraction,
        seed=request.seed or 0,
        num_workers=request.num_workers,
    )


FORMAT = DatasetFormat(
    name="imagenet",
    summary="JPEG files in class folders or in train_list.txt and val_list.txt; makes textured shapes in any number",
    options=frozenset({"num_samples", "num_classes", "val_fraction", "seed", "num_workers"}),
    make=_make,
    check=check_folder,
    summarise=summarise_folder,
)
