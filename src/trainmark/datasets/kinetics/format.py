"""The format `kinetics` of `trainmark data`."""

from __future__ import annotations

from pathlib import Path

from trainmark.datasets.formats import DatasetFormat, MakeRequest
from trainmark.datasets.kinetics.check import check_clips
from trainmark.datasets.kinetics.make import make_kinetics
from trainmark.datasets.kinetics.read import read_clips
from trainmark.datasets.report import MakeReport, Summary

_DEFAULT_NUM_CLIPS = 1500
_DEFAULT_NUM_CLASSES = 6


def summarise_clips(root: Path) -> Summary:
    scan = read_clips(root)
    return Summary(num_train=len(scan.train), num_val=len(scan.val or ()), num_classes=len(scan.classes))


def _make(root: Path, request: MakeRequest) -> MakeReport:
    return make_kinetics(
        root,
        num_clips=_DEFAULT_NUM_CLIPS if request.num_samples is None else request.num_samples,
        num_classes=_DEFAULT_NUM_CLASSES if request.num_classes is None else request.num_classes,
        val_fraction=0.2 if request.val_fraction is None else request.val_fraction,
        seed=request.seed or 0,
        num_workers=request.num_workers,
        as_videos=bool(request.as_videos),
    )


FORMAT = DatasetFormat(
    name="kinetics",
    summary="clips as folders of frames with a list, or as video files; makes clips whose class is the order of events",
    options=frozenset({"num_samples", "num_classes", "val_fraction", "seed", "num_workers", "as_videos"}),
    make=_make,
    check=check_clips,
    summarise=summarise_clips,
)
