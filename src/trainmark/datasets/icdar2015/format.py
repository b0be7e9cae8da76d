"""The format `icdar2015` of `trainmark data`."""

from __future__ import annotations

from pathlib import Path

from trainmark.datasets.formats import DatasetFormat, MakeRequest
from trainmark.datasets.icdar2015.check import check_folder
from trainmark.datasets.icdar2015.make import make_icdar2015
from trainmark.datasets.icdar2015.read import read_folder
from trainmark.datasets.report import MakeReport, Summary

_DEFAULT_NUM_IMAGES = 500


def _summarise(root: Path) -> Summary:
    folder = read_folder(root)
    num_val = len(folder.val.images) if folder.val is not None else 0
    return Summary(num_train=len(folder.train.images), num_val=num_val, num_classes=1)


def _make(root: Path, request: MakeRequest) -> MakeReport:
    return make_icdar2015(
        root,
        num_images=_DEFAULT_NUM_IMAGES if request.num_samples is None else request.num_samples,
        val_fraction=0.2 if request.val_fraction is None else request.val_fraction,
        seed=request.seed or 0,
        num_workers=request.num_workers,
    )


FORMAT = DatasetFormat(
    name="icdar2015",
    summary="street photographs with words as quadrilaterals (challenge 4); makes rendered words on textures",
    options=frozenset({"num_samples", "val_fraction", "seed", "num_workers"}),
    make=_make,
    check=check_folder,
    summarise=_summarise,
)
