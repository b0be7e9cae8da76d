"""A dataset format: points.csv with one point in each line."""

from __future__ import annotations

import time
from pathlib import Path

from trainmark.datasets.formats import DatasetFormat, MakeRequest
from trainmark.datasets.report import CheckReport, MakeReport, SplitCount, Summary

_FILE = "points.csv"


def _make(root: Path, request: MakeRequest) -> MakeReport:
    started = time.monotonic()
    num_samples = request.num_samples or 100
    text = "".join(f"{number},{3 * number - 1}\n" for number in range(num_samples))
    (root / _FILE).write_text(text)
    return MakeReport(
        root=root,
        unit="points",
        classes=(),
        num_train=num_samples,
        num_val=0,
        num_bytes=len(text),
        elapsed_s=time.monotonic() - started,
    )


def _check(root: Path, *, decode: bool, num_workers: int | None) -> CheckReport:
    text = (root / _FILE).read_text()
    train = SplitCount(name="train", num_samples=len(text.splitlines()))
    return CheckReport(
        root=root, unit="points", decoded=decode, classes=(), splits=(train,), num_bytes=len(text), num_ignored=0,
        faults=(),
    )  # fmt: skip


def _summarise(root: Path) -> Summary:
    return Summary(num_train=len((root / _FILE).read_text().splitlines()), num_val=0, num_classes=0)


FORMAT = DatasetFormat(
    name="sample-points",
    summary="points of a straight line in one CSV file",
    options=frozenset({"num_samples"}),
    make=_make,
    check=_check,
    summarise=_summarise,
)
