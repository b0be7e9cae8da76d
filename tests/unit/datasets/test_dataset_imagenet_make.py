from __future__ import annotations

import hashlib
import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trainmark.datasets import workers
from trainmark.datasets.imagenet.check import check_folder
from trainmark.datasets.imagenet.make import make_imagenet
from trainmark.datasets.imagenet.read import read_folder
from trainmark.datasets.imagenet.scene import draw_scene
from trainmark.datasets.patterns import MAX_CLASSES, class_name
from trainmark.errors import DataError

SMALL = (60, 80)


def fingerprints(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_layout_counts_and_report(tmp_path: Path) -> None:
    report = make_imagenet(tmp_path / "made", num_images=50, num_classes=4, num_workers=1, mean_size=SMALL)
    folder = read_folder(tmp_path / "made")
    assert folder.val is not None
    assert (report.num_train, report.num_val, report.num_samples) == (40, 10, 50)
    assert (len(folder.train.paths), len(folder.val.paths)) == (40, 10)
    assert folder.classes == report.classes == tuple(class_name(label) for label in range(4))
    assert np.bincount(folder.train.labels).tolist() == [10] * 4
    checked = check_folder(tmp_path / "made", decode=True, num_workers=1)
    assert checked.ok
    assert checked.num_bytes == report.num_bytes
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_bytes_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    for number in (1, 2):
        make_imagenet(tmp_path / str(number), num_images=100, num_workers=number, mean_size=SMALL, seed=3)
    assert fingerprints(tmp_path / "1") == fingerprints(tmp_path / "2")


def test_a_larger_folder_holds_the_smaller_ones_images(tmp_path: Path) -> None:
    for size in (50, 100):
        make_imagenet(tmp_path / str(size), num_images=size, num_workers=1, mean_size=SMALL)
    small, large = fingerprints(tmp_path / "50"), fingerprints(tmp_path / "100")
    assert small.items() <= large.items()
    assert len(set(large.values())) == 100, "no image is there twice, in either split"


def test_another_seed_gives_other_images(tmp_path: Path) -> None:
    for seed in (0, 1):
        make_imagenet(tmp_path / str(seed), num_images=20, num_classes=2, num_workers=1, mean_size=SMALL, seed=seed)
    assert not set(fingerprints(tmp_path / "0").values()) & set(fingerprints(tmp_path / "1").values())


def test_files_are_as_large_as_imagenets(tmp_path: Path) -> None:
    report = make_imagenet(tmp_path / "made", num_images=100, num_workers=1)
    assert 90_000 <= report.mean_sample_bytes <= 110_000
    sizes = []
    for path in (tmp_path / "made").rglob("*.JPEG"):
        with Image.open(path) as image:
            sizes.append(image.size)
            assert image.mode == "RGB"
    widths, heights = np.transpose(sizes)
    assert 0.1 < np.mean(heights > widths) < 0.4, "some stand upright"
    assert len(set(sizes)) > 80, "sizes vary"
    assert np.sqrt(np.mean(widths * heights)) == pytest.approx(np.sqrt(375 * 500), rel=0.05)


def test_no_validation_part(tmp_path: Path) -> None:
    make_imagenet(tmp_path / "made", num_images=10, val_fraction=0, num_workers=1, mean_size=SMALL)
    assert read_folder(tmp_path / "made").val is None


def test_all_classes_are_different_pairs_in_order() -> None:
    names = [class_name(label) for label in range(MAX_CLASSES)]
    assert names == sorted(names)
    assert len({name[3:] for name in names}) == MAX_CLASSES
    assert len({name.split("_")[2] for name in names[:10]}) == 10, "the first ten differ in texture too"


def test_every_class_can_be_drawn_and_is_not_flat() -> None:
    for label in range(MAX_CLASSES):
        pixels = draw_scene(label=label, seed=0, split=0, index=label, mean_size=(90, 120))
        small = np.asarray(Image.fromarray(pixels).resize((64, 64)).convert("L"), dtype=float)
        assert small.std() > 15, class_name(label)


def test_colour_does_not_tell_the_class() -> None:
    """The classes' mean colours differ by no more than chance: their spread is that of means of so many images."""
    means = np.array(
        [
            [draw_scene(label=label, seed=0, split=0, index=index, mean_size=SMALL).mean((0, 1)) for index in range(60)]
            for label in range(10)
        ]
    )
    within = means.std(axis=1).mean(axis=0) / np.sqrt(60)
    between = means.mean(axis=1).std(axis=0)
    assert np.all(between < 2.5 * within)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_images": 5}, "5 images are too few for 10 classes"),
        ({"num_images": 30}, "val would get 6"),
        ({"num_images": 0}, "empty"),
        ({"num_images": -1}, "empty"),
        ({"num_classes": 1}, "cannot make 1 class"),
        ({"num_classes": 1000}, "1000 classes"),
        ({"val_fraction": 1.0}, "--val-fraction: must be"),
        ({"val_fraction": float("nan")}, "--val-fraction: must be"),
        ({"seed": -1}, "--seed: must be"),
        ({"mean_size": (8, 8)}, "8 x 8"),
        ({"num_workers": 0}, "--workers: must be"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is_written(
    tmp_path: Path, wrong: dict[str, int], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        make_imagenet(tmp_path / "made", **{"num_images": 100, **wrong})
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def write_until_full(path: Path, data: bytes) -> int:
        if len(written) == 7:
            raise OSError(28, "No space left on device", str(path))
        path.touch()
        written.append(path)
        return len(data)

    monkeypatch.setattr(Path, "write_bytes", write_until_full)
    with pytest.raises(DataError, match="No space left on device") as caught:
        make_imagenet(tmp_path / "deep" / "made", num_images=50, num_workers=1, mean_size=SMALL)
    assert "free some space" in caught.value.hint
    assert len(written) == 7
    assert list(tmp_path.iterdir()) == []


def test_without_pillow_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DataError, match="Pillow") as caught:
        make_imagenet(tmp_path / "made", num_images=100)
    assert "pip install" in caught.value.hint


def test_dead_worker_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class DyingPool(workers.ProcessPoolExecutor):
        def map(self, *_: object) -> object:  # type: ignore[override]
            raise workers.BrokenProcessPool

    monkeypatch.setattr(workers, "ProcessPoolExecutor", DyingPool)
    with pytest.raises(DataError, match="died"):
        make_imagenet(tmp_path / "made", num_images=100, num_workers=2, mean_size=SMALL)
    assert list(tmp_path.iterdir()) == []


def test_the_files_carry_no_date_or_host(tmp_path: Path) -> None:
    make_imagenet(tmp_path / "made", num_images=10, val_fraction=0, num_workers=1, mean_size=SMALL)
    data = next((tmp_path / "made").rglob("*.JPEG")).read_bytes()
    with Image.open(io.BytesIO(data)) as image:
        assert not image.getexif()
