from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trainmark.datasets.imagenet.check import check_folder
from trainmark.datasets.imagenet.read import read_folder
from trainmark.errors import DataError

BuildFolder = Callable[[dict[str, list[str]]], Path]


def fault_of(root: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        read_folder(root)
    assert caught.value.hint, "every error tells the next action"
    return caught.value


def test_paths_and_labels(build_folder: BuildFolder) -> None:
    root = build_folder(
        {"train/b": ["2.jpg", "1.JPEG"], "train/a": ["x.jpeg", "notes.txt"], "train/B": ["y.JPG"], "val/b": ["v.jpg"]}
    )
    folder = read_folder(root)
    assert folder.classes == ("B", "a", "b")
    assert folder.train.paths == ("train/B/y.JPG", "train/a/x.jpeg", "train/b/1.JPEG", "train/b/2.jpg")
    assert folder.train.labels.tolist() == [0, 1, 2, 2]
    assert folder.train.labels.dtype == np.int64
    assert folder.val is not None
    assert (folder.val.paths, folder.val.labels.tolist()) == (("val/b/v.jpg",), [2])


def test_order_is_torchvisions(build_folder: BuildFolder) -> None:
    datasets = pytest.importorskip("torchvision.datasets")
    root = build_folder({f"train/{name}": [f"{i}.jpg" for i in (10, 9, 1)] for name in ("n2", "n10", "N3", "ä", "_")})
    ours, theirs = read_folder(root), datasets.ImageFolder(str(root / "train"))
    assert list(ours.classes) == theirs.classes
    assert [str(ours.root / path) for path in ours.train.paths] == [path for path, _ in theirs.samples]
    assert ours.train.labels.tolist() == theirs.targets


def test_hidden_names_are_neither_images_nor_classes(build_folder: BuildFolder) -> None:
    seen = {"train/a": ["1.jpg"], "train/b": ["1.jpg"], "val/b": ["1.jpg"]}
    root = build_folder({**seen, "train/.cache": ["a.JPEG"], "train/.void": [], "val/.z": ["1.jpg"]})
    (root / "train/a/.copy.JPEG").write_bytes((root / "train/a/1.jpg").read_bytes())
    (root / "train/b/.link.jpg").symlink_to("/etc/passwd")
    (root / "train/.linked").symlink_to("/etc")
    folder = read_folder(root)
    assert folder.classes == ("a", "b")
    assert folder.train.paths == ("train/a/1.jpg", "train/b/1.jpg")
    assert folder.train.labels.tolist() == [0, 1]
    assert folder.val is not None
    assert folder.val.paths == ("val/b/1.jpg",)


def test_a_class_of_hidden_images_alone_is_empty(build_folder: BuildFolder) -> None:
    assert "train/b" in fault_of(build_folder({"train/a": ["1.jpg"], "train/b": [".1.jpg"]})).why


def test_val_is_optional(build_folder: BuildFolder) -> None:
    assert read_folder(build_folder({"train/a": ["1.jpg"]})).val is None


def test_missing_folder(tmp_path: Path) -> None:
    assert "not found" in fault_of(tmp_path / "nowhere").what


def test_file_instead_of_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not a folder" in fault_of(tmp_path / "file").what


def test_no_train(build_folder: BuildFolder) -> None:
    assert "has no train folder" in fault_of(build_folder({"val/a": ["1.jpg"]})).what


def test_no_classes(build_folder: BuildFolder) -> None:
    assert "no class folders in train" in fault_of(build_folder({"train": ["1.jpg"]})).why


def test_all_empty_classes_are_named(build_folder: BuildFolder) -> None:
    files = {f"train/{name}": [] if name in "bd" else ["1.jpg"] for name in "abcd"}
    why = fault_of(build_folder({**files, "val/a": ["only.png"]})).why
    assert "train/b, train/d, val/a" in why
    assert "train/a" not in why


def test_classes_of_val_that_train_lacks(build_folder: BuildFolder) -> None:
    why = fault_of(build_folder({"train/a": ["1.jpg"], "val/a": ["1.jpg"], "val/z": ["1.jpg"]})).why
    assert "not a class of train: val/z" in why


def test_several_kinds_of_fault_at_once(build_folder: BuildFolder) -> None:
    error = fault_of(build_folder({"train/a": ["1.jpg"], "train/b": [], "val/z": ["1.jpg"]}))
    assert "train/b" in error.why
    assert "val/z" in error.why


@pytest.mark.parametrize("link", ["train/a/link.jpg", "train/linked", "val"])
def test_links_out_of_the_folder_are_refused(build_folder: BuildFolder, tmp_path: Path, link: str) -> None:
    root = build_folder({"train/a": ["1.jpg"]})
    elsewhere = tmp_path / "data-elsewhere"  # begins like the folder's own name, and is not inside it
    (elsewhere / "a").mkdir(parents=True)
    (elsewhere / "a" / "1.jpg").touch()
    (root / link).symlink_to(elsewhere / "a" / "1.jpg" if link.endswith("jpg") else elsewhere)
    why = fault_of(root).why
    assert "outside" in why
    assert link in why


def test_links_within_the_folder_are_followed(build_folder: BuildFolder, tmp_path: Path) -> None:
    root = build_folder({"train/a": ["1.jpg"], "blobs": ["2.jpg"]})
    (root / "train/a/2.jpg").symlink_to("../../blobs/2.jpg")
    (root / "train/b").symlink_to("a")
    (tmp_path / "name").symlink_to(root)
    folder = read_folder(tmp_path / "name")
    assert folder.train.paths == ("train/a/1.jpg", "train/a/2.jpg", "train/b/1.jpg", "train/b/2.jpg")
    assert folder.root == root.resolve()


def test_links_to_nothing_and_to_themselves(build_folder: BuildFolder, tmp_path: Path) -> None:
    root = build_folder({"train/a": ["1.jpg"]})
    (root / "train/a/gone.jpg").symlink_to("never.jpg")
    assert "broken links: train/a/gone.jpg" in fault_of(root).why
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "cannot be read" in fault_of(tmp_path / "loop").what


def test_many_bad_links_are_counted_not_listed(build_folder: BuildFolder) -> None:
    root = build_folder({"train/a": ["1.jpg"]})
    for index in range(30):
        (root / f"train/a/{index}.jpg").unlink(missing_ok=True)
        (root / f"train/a/{index}.jpg").symlink_to("/dev/null")
    assert "and 20 more" in fault_of(root).why


def test_pipes_and_folders_with_an_images_name_are_no_images(build_folder: BuildFolder) -> None:
    root = build_folder({"train/a": ["1.jpg"]})
    os.mkfifo(root / "train/a/pipe.jpg")
    (root / "train/a/folder.jpg").mkdir()
    assert read_folder(root).train.paths == ("train/a/1.jpg",)


def test_names_that_would_upset_a_terminal_are_escaped(build_folder: BuildFolder) -> None:
    why = fault_of(build_folder({"train/a": ["1.jpg"], "train/\x1b[31mred": []})).why
    assert "\x1b" not in why
    assert "\\x1b[31mred" in why


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything, whatever the permissions say")
@pytest.mark.parametrize("closed", [".", "train", "train/a"])
def test_closed_folder(build_folder: BuildFolder, closed: str) -> None:
    root = build_folder({"train/a": ["1.jpg"]})
    (root / closed).chmod(0)
    try:
        error = fault_of(root)
    finally:
        (root / closed).chmod(0o700)
    assert "cannot be read" in str(error)


@pytest.mark.parametrize("closed", [".", "train", "train/a"])
def test_closed_folder_as_the_system_would_report_it(
    build_folder: BuildFolder, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    root = build_folder({"train/a": ["1.jpg"]}).resolve()
    scandir = os.scandir

    def refuse(path: str | Path) -> object:
        if Path(path) == root / closed:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    error = fault_of(root)
    assert "cannot be read" in str(error)
    assert "chmod" in error.hint


# -- list files --------------------------------------------------------------------------------------------------------


@pytest.fixture
def listed(build_folder: BuildFolder) -> Path:
    """As Paddle's models have it: class folders to train on, one flat folder to validate with."""
    root = build_folder({"train/n01": ["a.JPEG", "b b.JPEG"], "train/n02": ["c.JPEG"], "val": ["1.JPEG", "2.JPEG"]})
    (root / "train_list.txt").write_text("train/n02/c.JPEG 1\ntrain/n01/b b.JPEG 0\ntrain/n01/a.JPEG 0\n")
    (root / "val_list.txt").write_text("\ufeffval/1.JPEG\t2\r\n\r\nval/2.JPEG 0\r\n", encoding="utf-8")
    return root


def test_lists_say_which_images_have_which_label(listed: Path) -> None:
    folder = read_folder(listed)
    assert folder.classes == ("0", "1", "2")
    assert folder.train.paths == ("train/n02/c.JPEG", "train/n01/b b.JPEG", "train/n01/a.JPEG")
    assert folder.train.labels.tolist() == [1, 0, 0]
    assert folder.val is not None
    assert (folder.val.paths, folder.val.labels.tolist()) == (("val/1.JPEG", "val/2.JPEG"), [2, 0])


def test_paths_of_a_list_may_start_in_the_folder_of_their_split(listed: Path) -> None:
    (listed / "train_list.txt").write_text("n01/a.JPEG 0\nn02/c.JPEG 1\n")
    (listed / "val_list.txt").unlink()
    folder = read_folder(listed)
    assert folder.train.paths == ("train/n01/a.JPEG", "train/n02/c.JPEG")
    assert folder.val is None


def test_bad_lines_are_all_named(listed: Path) -> None:
    lines = [
        "train/n01/a.JPEG 0",
        "train/n01/a.JPEG",
        "../a.JPEG 1",
        "/etc/passwd 1",
        "train/n01/a.JPEG 9999999",
        "x y",
    ]
    (listed / "train_list.txt").write_text("\n".join(lines))
    told = str(fault_of(listed))
    for number in (2, 3, 4, 5, 6):
        assert f"train_list.txt:{number}" in told
    assert "train_list.txt:1:" not in told


def test_an_empty_list_and_one_of_another_folder_are_refused(listed: Path) -> None:
    (listed / "train_list.txt").write_text("\n")
    assert "train_list.txt" in str(fault_of(listed))
    (listed / "train_list.txt").write_text("elsewhere/a.JPEG 0\n")
    assert "none of its first 1 image exists" in str(fault_of(listed))


def test_a_few_missing_images_of_a_list_are_tolerated_and_many_are_not(listed: Path) -> None:
    many = "".join(f"train/n01/{number}.JPEG 0\n" for number in range(300))
    (listed / "val_list.txt").unlink()
    for number in range(300):
        (listed / f"train/n01/{number}.JPEG").write_bytes(b"")
    (listed / "train_list.txt").write_text(many + "train/n02/gone.JPEG 1\n")
    assert len(read_folder(listed).train.paths) == 301
    report = check_folder(listed, decode=False, num_workers=1)
    assert [fault.problem for fault in report.faults if fault.path == "train/n02/gone.JPEG"] == ["missing"]
    (listed / "train_list.txt").write_text(many + "".join(f"train/n02/gone{n}.JPEG 1\n" for n in range(4)))
    assert "train/n02/gone0.JPEG" in str(fault_of(listed))


def test_links_of_a_list_stay_inside(listed: Path) -> None:
    (listed / "train/n02/c.JPEG").unlink()
    (listed / "train/n02/c.JPEG").symlink_to("/etc/passwd")
    assert "outside" in str(fault_of(listed))


def test_check_reads_every_listed_image(listed: Path) -> None:
    (listed / "train/n01/a.JPEG").write_bytes(b"nonsense")
    report = check_folder(listed, decode=True, num_workers=1)
    assert [(split.name, split.num_samples, dict(split.counts)) for split in report.splits] == [
        ("train", 3, {"0": 2, "1": 1}), ("val", 2, {"0": 1, "2": 1}),
    ]  # fmt: skip
    assert "train/n01/a.JPEG" in [fault.path for fault in report.faults]
