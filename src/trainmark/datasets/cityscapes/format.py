"""The format `cityscapes` of `trainmark data`."""

from __future__ import annotations

from pathlib import Path

from trainmark.datasets.cityscapes.check import check_folder
from trainmark.datasets.cityscapes.labels import CLASSES
from trainmark.datasets.cityscapes.make import DEFAULT_SIZE, make_cityscapes
from trainmark.datasets.cityscapes.read import read_cityscapes
from trainmark.datasets.formats import DatasetFormat, MakeRequest
from trainmark.datasets.report import MakeReport, Summary

_DEFAULT_NUM_IMAGES = 500  # 400 to train on and 100 to validate with; 440 MB


def summarise_folder(root: Path) -> Summary:
    folder = read_cityscapes(root)
    return Summary(num_train=len(folder.train), num_val=len(folder.val), num_classes=len(CLASSES))


def _make(root: Path, request: MakeRequest) -> MakeReport:
    return make_cityscapes(
        root,
        num_images=_DEFAULT_NUM_IMAGES if request.num_samples is None else request.num_samples,
        val_fraction=0.2 if request.val_fraction is None else request.val_fraction,
        seed=request.seed or 0,
        num_workers=request.num_workers,
        size=request.image_size or DEFAULT_SIZE,
    )


FORMAT = DatasetFormat(
    name="cityscapes",
    summary="street scenes with a class for every pixel, leftImg8bit and gtFine; makes drawn streets of 1024 x 512",
    options=frozenset({"num_samples", "val_fraction", "seed", "num_workers", "image_size"}),
    make=_make,
    check=check_folder,
    summarise=summarise_folder,
)
