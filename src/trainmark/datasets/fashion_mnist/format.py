"""The format `fashion-mnist` of `trainmark data`; once converted, it is read and checked like `imagenet`."""

from __future__ import annotations

from pathlib import Path

from trainmark.datasets.fashion_mnist.make import DEBIAN_SOURCE, make_fashion_mnist
from trainmark.datasets.formats import DatasetFormat, MakeRequest
from trainmark.datasets.imagenet.check import check_folder
from trainmark.datasets.imagenet.format import summarise_folder
from trainmark.datasets.report import MakeReport


def _make(root: Path, request: MakeRequest) -> MakeReport:
    return make_fashion_mnist(root, source=request.source or DEBIAN_SOURCE, limit=request.num_samples)


FORMAT = DatasetFormat(
    name="fashion-mnist",
    summary="28x28 photographs of clothes in ten classes, converted from Debian's dataset-fashion-mnist",
    options=frozenset({"num_samples", "source"}),
    make=_make,
    check=check_folder,
    summarise=summarise_folder,
)
