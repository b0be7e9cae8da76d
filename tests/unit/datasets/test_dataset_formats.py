from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import trainmark.datasets
from trainmark.datasets.fashion_mnist.make import DEBIAN_SOURCE
from trainmark.datasets.formats import MakeRequest, check_dataset, find_format, formats, make_dataset
from trainmark.errors import DataError, InputError

BuildFolder = Callable[[dict[str, list[str]]], Path]


def test_the_formats_are_found() -> None:
    expected = ["cityscapes", "coco", "fashion-mnist", "icdar2015", "imagenet", "kinetics"]
    assert [found.name for found in formats().found()] == expected
    for format_ in (found.value for found in formats().found()):
        assert format_.summary
        assert format_.options <= set(MakeRequest.__dataclass_fields__)


def test_make_and_check_by_name(tmp_path: Path) -> None:
    request = MakeRequest(num_samples=12, num_classes=3, val_fraction=0.25, seed=5, num_workers=1)
    report = make_dataset("imagenet", tmp_path / "made", request)
    assert (report.num_train, report.num_val, len(report.classes)) == (9, 3, 3)
    assert check_dataset("imagenet", tmp_path / "made", decode=True).ok


@pytest.mark.skipif(not DEBIAN_SOURCE.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_make_fashion_mnist_by_name(tmp_path: Path) -> None:
    assert make_dataset("fashion-mnist", tmp_path / "made", MakeRequest(num_samples=20)).num_samples == 40
    assert check_dataset("fashion-mnist", tmp_path / "made", decode=False, num_workers=1).num_samples == 40


def test_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="'imagnet'") as caught:
        find_format("imagnet")
    assert ", ".join(found.name for found in formats().found()) in caught.value.hint


def test_choices_that_a_format_lacks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--classes, --seed") as caught:
        make_dataset("fashion-mnist", tmp_path / "made", MakeRequest(num_classes=3, seed=1))
    assert "--images, --source" in caught.value.hint


def test_no_module_imports_a_framework() -> None:
    for path in Path(trainmark.datasets.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & {"torch", "torchvision", "paddle"}, path.name
