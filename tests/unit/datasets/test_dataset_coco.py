from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools import mask as coco_mask

from trainmark.datasets.coco.check import check_coco
from trainmark.datasets.coco.layout import Part
from trainmark.datasets.coco.make import make_coco
from trainmark.datasets.coco.masks import bitmaps, pack, read_runs, unpack
from trainmark.datasets.coco.parse import parse_split
from trainmark.datasets.coco.read import read_coco
from trainmark.datasets.coco.scene import draw_scene
from trainmark.datasets.coco.trace import trace
from trainmark.datasets.formats import check_dataset, find_format
from trainmark.datasets.manifest import write_manifest
from trainmark.datasets.report import FaultKind
from trainmark.errors import DataError

Encode = Callable[..., bytes]
HEIGHT, WIDTH = 60, 80  # of the photo in conftest
TRAIN = Part(name="train2017", folder="train2017")


def box_record(**changes: Any) -> dict[str, Any]:
    """A rectangle of 10 x 20 pixels at (5, 10)."""
    corners = [5, 10, 15, 10, 15, 30, 5, 30]
    record = {"id": 1, "image_id": 7, "category_id": 3, "iscrowd": 0, "area": 200, "bbox": [5, 10, 10, 20]}
    return {**record, "segmentation": [corners], **changes}


def content(*annotations: dict[str, Any], **changes: Any) -> dict[str, Any]:
    image = {"id": 7, "file_name": "a.jpg", "height": HEIGHT, "width": WIDTH}
    categories = [{"id": 9, "name": "dog"}, {"id": 3, "name": "cat"}]
    return {"images": [image], "annotations": list(annotations), "categories": categories, **changes}


Build = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path, encode: Encode) -> Build:
    """A folder with a training part of the given annotation file and one good image."""

    def build_folder(train: Any) -> Path:
        root = tmp_path / "coco"
        (root / "annotations").mkdir(parents=True)
        (root / "train2017").mkdir()
        (root / "train2017/a.jpg").write_bytes(encode(quality=90))
        data = train if isinstance(train, bytes) else json.dumps(train).encode()
        (root / "annotations/instances_train2017.json").write_bytes(data)
        return root

    return build_folder


def kinds(root: Path) -> list[tuple[FaultKind, bool]]:
    return [(fault.kind, fault.usable) for fault in check_coco(root, decode=True, num_workers=1).faults]


# -- reading -----------------------------------------------------------------------------------------------------------


def test_labels_follow_the_order_of_ids_and_boxes_are_as_written(build: Build) -> None:
    folder = read_coco(build(content(box_record(), box_record(id=2, category_id=9))))
    assert folder.categories == {3: "cat", 9: "dog"}
    assert folder.val is None
    assert folder.train.instances.labels.tolist() == [1, 2]
    assert folder.train.instances.boxes[0].tolist() == [5, 10, 10, 20]
    mask = bitmaps(folder.train, [0], 0)[0]
    assert mask.sum() == 200
    assert mask[10:30, 5:15].all()


def test_annotations_go_to_their_images(build: Build) -> None:
    images = [{"id": id_, "file_name": f"{id_}.jpg", "height": HEIGHT, "width": WIDTH} for id_ in (30, 10, 20)]
    records = [box_record(id=number, image_id=id_) for number, id_ in enumerate((20, 30, 20), start=1)]
    split, _ = parse_split(build(content(*records, images=images)), TRAIN)
    assert split is not None
    of_image = [split.instances.ids[list(split.instances.of_image(index))].tolist() for index in range(3)]
    assert of_image == [[2], [], [1, 3]]


def test_plain_and_packed_runs_give_the_same_mask(build: Build) -> None:
    """One column of the rectangle is 10 empty, 20 full, 30 empty."""
    counts = [5 * HEIGHT + 10, *([20, 40] * 9), 20, 30 + (WIDTH - 15) * HEIGHT]
    assert sum(counts) == HEIGHT * WIDTH
    plain = box_record(iscrowd=1, segmentation={"size": [HEIGHT, WIDTH], "counts": counts})
    packed = box_record(id=2, segmentation={"size": [HEIGHT, WIDTH], "counts": pack(counts).decode()})
    folder = read_coco(build(content(plain, packed, box_record(id=3))))
    masks = bitmaps(folder.train, [0, 1, 2], 0)
    assert folder.train.instances.is_crowd.tolist() == [True, False, False]
    np.testing.assert_array_equal(masks[0], masks[2])
    np.testing.assert_array_equal(masks[1], masks[2])


def test_packing_is_that_of_the_coco_tools() -> None:
    rng = np.random.default_rng(0)
    for share in (0.01, 0.3, 0.5, 0.9, 1.0):
        mask = (rng.random((300, 257)) < share).astype(np.uint8)
        text = coco_mask.encode(np.asfortranarray(mask))["counts"]
        counts = unpack(text)
        assert sum(counts) == mask.size
        assert sum(counts[1::2]) == mask.sum()
        assert pack(counts) == text


@pytest.mark.parametrize(
    ("segmentation", "words"),
    [
        ({"size": [60, 80], "counts": [10**12, 1]}, "do not add up"),
        ({"size": [60, 80], "counts": [4800, -1, 1]}, "do not add up"),
        ({"size": [60, 80], "counts": [4800.0]}, "not integers"),
        ({"size": [80, 60], "counts": [4800]}, "for an image of 60 x 80, not 80 x 60"),
        ({"counts": [4800]}, "unknown size"),
        ({"size": [60, 80]}, "not integers"),
        ({"size": [60, 80], "counts": "o" * 2000}, "an invalid run length at character"),
        ({"size": [60, 80], "counts": "o"}, "in the middle of a number"),
        ({"size": [60, 80], "counts": "ä"}, "an invalid run length at character 1"),
        ({"size": [60, 80], "counts": "1"}, "do not add up"),
    ],
)
def test_bad_runs_never_reach_the_coco_tools(segmentation: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_runs(segmentation, 60, 80)


# -- faults of single annotations: named, and the run goes on ----------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "num_left"),
    [
        ({"image_id": 8}, FaultKind.UNKNOWN_IMAGE, 0),
        ({"image_id": None}, FaultKind.UNKNOWN_IMAGE, 0),
        ({"category_id": 4}, FaultKind.UNKNOWN_CATEGORY, 0),
        ({"bbox": [5, 10, 0, 20]}, FaultKind.EMPTY_BOX, 0),
        ({"bbox": [100, 10, 10, 20]}, FaultKind.EMPTY_BOX, 0),
        ({"bbox": [float("nan"), 10, 10, 20]}, FaultKind.BAD_RECORD, 0),
        ({"bbox": [1e999, 10, 10, 20]}, FaultKind.BAD_RECORD, 0),
        ({"bbox": [5, 10, 10]}, FaultKind.BAD_RECORD, 0),
        ({"bbox": None}, FaultKind.BAD_RECORD, 0),
        ({"segmentation": []}, FaultKind.BAD_MASK, 0),
        ({"segmentation": [[1, 2, 3, 4]]}, FaultKind.BAD_MASK, 0),
        ({"segmentation": [["a", 2, 3, 4, 5, 6]]}, FaultKind.BAD_MASK, 0),
        ({"segmentation": [[float("nan"), 2, 3, 4, 5, 6]]}, FaultKind.BAD_MASK, 0),
        ({"segmentation": [[10**400, 2, 3, 4, 5, 6]]}, FaultKind.BAD_MASK, 0),
        ({"segmentation": {"size": [HEIGHT, WIDTH], "counts": [2**62]}}, FaultKind.BAD_MASK, 0),
        ({"segmentation": [[5, 10, 15, 10, 15, 30], [1, 2]]}, FaultKind.BAD_MASK, 1),
        ({"segmentation": [[-40, 10, 15, 10, 15, 30, -40, 30]]}, FaultKind.POLYGON_OUTSIDE, 1),
        ({"segmentation": [[-1e18, 10, 15, 10, 15, 30, -1e18, 30]]}, FaultKind.POLYGON_OUTSIDE, 1),
    ],
)
def test_a_bad_annotation_is_named_and_left_out(
    build: Build, changes: dict[str, Any], kind: FaultKind, num_left: int
) -> None:
    root = build(content(box_record(**changes), box_record(id=2)))
    (fault,) = check_coco(root, decode=True, num_workers=1).faults
    assert (fault.kind, fault.usable, fault.is_entry) == (kind, True, True)
    assert ("; skipped" in fault.problem) == (num_left == 0)
    split = read_coco(root).train
    assert len(split.instances) == num_left + 1
    assert len(split.problems[0]) == 1
    assert "annotation 1" in split.problems[0][0]


def test_a_bad_entry_and_the_change_of_its_file_are_two_faults(build: Build) -> None:
    root = build(content(box_record()))
    write_manifest(root)
    annotations = json.dumps(content(box_record(), box_record(id=2, bbox=[5, 10, 10, 0])))
    (root / "annotations/instances_train2017.json").write_text(annotations)
    faults = check_dataset("coco", root, decode=True, num_workers=1).faults
    assert [(fault.kind, fault.usable) for fault in faults] == [(FaultKind.EMPTY_BOX, True), (FaultKind.CHANGED, False)]


def test_no_good_annotation_among_bad_ones_is_more_than_a_note(build: Build) -> None:
    root = build(content(box_record(bbox=[5, 10, 10, 0])))
    assert sorted(kinds(root)) == [(FaultKind.EMPTY_ANNOTATIONS, False), (FaultKind.EMPTY_BOX, True)]


def test_a_polygon_outside_is_clipped_at_the_edge(build: Build) -> None:
    root = build(content(box_record(segmentation=[[-1e18, 10, 15, 10, 15, 30, -1e18, 30]])))
    mask = bitmaps(read_coco(root).train, [0], 0)[0]
    assert mask[10:30, :15].all()
    assert mask.sum() == 20 * 15


def test_optional_facts_may_be_absent(build: Build) -> None:
    record = box_record()
    del record["iscrowd"], record["area"]
    root = build(content(record))
    assert kinds(root) == []
    instances = read_coco(root).train.instances
    assert not instances.is_crowd[0]
    assert np.isnan(instances.areas[0])


def test_an_image_without_annotations_is_none_of_the_faults(build: Build) -> None:
    root = build(content())
    report = check_coco(root, decode=True, num_workers=1)
    assert report.ok
    assert report.splits[0].counts["images without annotations"] == 1
    assert bitmaps(read_coco(root).train, [], 0).shape == (0, HEIGHT, WIDTH)


def test_annotations_of_one_id_are_named_and_both_used(build: Build) -> None:
    root = build(content(box_record(), box_record()))
    assert kinds(root) == [(FaultKind.DUPLICATE_ID, True)]
    assert len(read_coco(root).train.instances) == 2


# -- faults that a run cannot go on with -------------------------------------------------------------------------------

GOOD_IMAGE = {"id": 7, "file_name": "a.jpg", "height": HEIGHT, "width": WIDTH}


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (b"", "is empty"),
        (b'{"images": [', "is not valid JSON"),
        (b"\xff\xfe\xfa not text", "is not valid JSON"),
        (b"[" * 200_000, "is not valid JSON"),
        (b"[]", "has no list of images, annotations, categories"),
        ({"images": [GOOD_IMAGE], "categories": []}, "has no list of annotations"),
        (content(images=[]), "lists no valid images"),
        (content(categories=[]), "lists no valid categories"),
        (content(categories=[{"id": 3}, {"id": 3}]), "category 3 is listed twice"),
        (content(images=[GOOD_IMAGE, GOOD_IMAGE]), "image 7 is listed twice"),
        (content(images=[GOOD_IMAGE, {"id": "x"}]), "image number 2 has no integer id"),
        (content(images=[GOOD_IMAGE, {"id": 8}]), "image 8 has no file name"),
        (content(images=[GOOD_IMAGE, {**GOOD_IMAGE, "id": 8, "width": 0}]), "image 8 has no height and width"),
        (content(images=[GOOD_IMAGE, {**GOOD_IMAGE, "id": 8, "width": 10**9}]), "image 8 claims"),
        (
            content(images=[{**GOOD_IMAGE, "file_name": "../a.jpg"}, {**GOOD_IMAGE, "id": 8}]),
            "points outside the folder",
        ),
        (content(images=[{**GOOD_IMAGE, "file_name": "/etc/passwd"}, {**GOOD_IMAGE, "id": 8}]), "points outside"),
        (content(images=[{**GOOD_IMAGE, "file_name": "b\0.jpg"}, {**GOOD_IMAGE, "id": 8}]), "points outside"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(build: Build, train: Any, words: str) -> None:
    root = build(train)
    with pytest.raises(DataError) as caught:
        read_coco(root)
    assert words in caught.value.why
    assert "data check coco" in caught.value.hint
    assert not check_coco(root, decode=True, num_workers=1).ok


def test_all_faults_are_named_at_once(build: Build) -> None:
    root = build(content(images=[{"id": 1}, {**GOOD_IMAGE, "file_name": "../x"}, GOOD_IMAGE]))
    with pytest.raises(DataError, match=r"image 1 has no file name.*points outside"):
        read_coco(root)


@pytest.mark.parametrize("layout", ["absent", "empty", "file"])
def test_what_is_no_coco_folder_says_what_one_is(tmp_path: Path, layout: str) -> None:
    root = tmp_path / "here"
    if layout == "empty":
        root.mkdir()
    elif layout == "file":
        root.write_bytes(b"x")
    with pytest.raises(DataError) as caught:
        read_coco(root)
    assert caught.value.hint


def test_a_link_out_of_the_folder_is_refused(build: Build, tmp_path: Path, encode: Encode) -> None:
    root = build(content())
    (tmp_path / "secret.jpg").write_bytes(encode())
    (root / "train2017/a.jpg").unlink()
    (root / "train2017/a.jpg").symlink_to(tmp_path / "secret.jpg")
    with pytest.raises(DataError, match="outside the folder"):
        read_coco(root)


def test_a_hidden_file_counts_only_if_the_annotations_name_it(build: Build, encode: Encode) -> None:
    root = build(content(images=[GOOD_IMAGE, {**GOOD_IMAGE, "id": 8, "file_name": ".named.jpg"}]))
    (root / "train2017/.named.jpg").write_bytes(encode())
    (root / "train2017/.copy.jpg").write_bytes(b"")
    (root / "train2017/.link.jpg").symlink_to("/etc/passwd")
    assert len(read_coco(root).train.images) == 2
    report = check_coco(root, decode=True, num_workers=1)
    assert (report.faults, report.num_samples, report.num_ignored) == ((), 2, 2)
    (root / "train2017/.named.jpg").unlink()
    (root / "train2017/.named.jpg").symlink_to("/etc/passwd")
    with pytest.raises(DataError, match=r"\.named\.jpg: a link to .*outside"):
        read_coco(root)


def test_a_few_missing_images_are_tolerated_and_many_are_not(build: Build, encode: Encode) -> None:
    images = [{**GOOD_IMAGE, "id": number, "file_name": f"{number}.jpg"} for number in range(200)]
    root = build(content(images=images))
    for number in range(199):
        (root / f"train2017/{number}.jpg").write_bytes(encode())
    assert len(read_coco(root).train.images) == 200
    report = check_coco(root, decode=False, num_workers=1)
    assert [(fault.path, fault.kind) for fault in report.faults] == [("train2017/199.jpg", FaultKind.MISSING_IMAGE)]
    assert report.num_ignored == 1  # a.jpg, which nothing names
    for number in range(5):
        (root / f"train2017/{number}.jpg").unlink()
    with pytest.raises(DataError, match=r"0\.jpg: missing"):
        read_coco(root)


def test_bad_images_and_wrong_sizes_are_named(build: Build, encode: Encode) -> None:
    names = ["good", "cut", "void", "other"]
    images = [{**GOOD_IMAGE, "id": number, "file_name": f"{name}.jpg"} for number, name in enumerate(names)]
    images[3]["width"] = WIDTH + 1
    root = build(content(images=images))
    whole = encode(quality=95)
    files = {"good": whole, "cut": whole[: len(whole) // 2], "void": b"", "other": whole}
    for name, data in files.items():
        (root / f"train2017/{name}.jpg").write_bytes(data)
    report = check_coco(root, decode=True, num_workers=2)
    assert [(fault.path, fault.kind, fault.usable) for fault in report.faults] == [
        ("train2017/cut.jpg", FaultKind.TRUNCATED, True),
        ("train2017/other.jpg", FaultKind.SIZE_MISMATCH, False),
        ("train2017/void.jpg", FaultKind.EMPTY_FILE, False),
    ]


def test_a_converted_image_is_held_against_its_stated_size(build: Build, encode: Encode) -> None:
    root = build(content(images=[{**GOOD_IMAGE, "width": WIDTH + 1}]))
    (root / "train2017/a.jpg").write_bytes(encode("CMYK"))
    assert sorted(kinds(root)) == [(FaultKind.MODE, True), (FaultKind.SIZE_MISMATCH, False)]


def test_validation_must_have_the_same_categories(build: Build, encode: Encode) -> None:
    root = build(content())
    (root / "val2017").mkdir()
    (root / "val2017/a.jpg").write_bytes(encode())
    other = content(categories=[{"id": 3, "name": "cat"}])
    (root / "annotations/instances_val2017.json").write_text(json.dumps(other))
    with pytest.raises(DataError, match="has different categories than"):
        read_coco(root)


# -- making ------------------------------------------------------------------------------------------------------------


def digest(root: Path) -> dict[str, str]:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_made_folders_are_good_and_the_same_for_any_number_of_workers(tmp_path: Path) -> None:
    one = make_coco(tmp_path / "one", num_images=40, num_workers=1, mean_size=(60, 80))
    make_coco(tmp_path / "two", num_images=40, num_workers=2, mean_size=(60, 80))
    assert digest(tmp_path / "one") == digest(tmp_path / "two")
    assert (one.num_train, one.num_val) == (32, 8)
    assert one.num_bytes == sum(path.stat().st_size for path in (tmp_path / "one").rglob("*.*"))
    report = check_coco(tmp_path / "one", decode=True, num_workers=1)
    assert report.ok
    assert report.num_ignored == 0
    folder = read_coco(tmp_path / "one")
    assert list(folder.categories) == [1, 2, 4, 5, 7]  # with gaps, as COCO's
    assert folder.val is not None
    assert not set(folder.train.images.ids.tolist()) & set(folder.val.images.ids.tolist())


def test_masks_come_back_from_the_file_pixel_by_pixel(tmp_path: Path) -> None:
    make_coco(tmp_path / "set", num_images=40, val_fraction=0, seed=3, num_workers=1, mean_size=(60, 80))
    split = read_coco(tmp_path / "set").train
    num_crowds = num_empty = 0
    for index in range(40):
        _, objects = draw_scene(seed=3, split=0, index=index, num_classes=5, mean_size=(60, 80))
        numbers = list(split.instances.of_image(index))
        assert len(numbers) == len(objects)
        masks = bitmaps(split, numbers, index)
        for number, mask, thing in zip(numbers, masks, objects, strict=True):
            np.testing.assert_array_equal(mask.astype(bool), thing.mask)
            assert split.instances.labels[number] == thing.label + 1
            assert split.instances.areas[number] == thing.mask.sum()
            num_crowds += thing.is_crowd
        num_empty += not objects
    assert num_crowds > 0
    assert num_empty > 0


def test_an_outline_with_holes_and_parts_comes_back_exactly() -> None:
    rng = np.random.default_rng(0)
    for share in (0.2, 0.5, 0.8):
        mask = rng.random((31, 23)) < share
        rings = trace(mask)
        again = coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))
        assert coco_mask.merge(coco_mask.frPyObjects(rings, 31, 23))["counts"] == again["counts"]
    assert trace(np.ones((2, 3), dtype=bool)) == [[0, 0, 3, 0, 3, 2, 0, 2]]


@pytest.mark.parametrize(
    "request_", [{"num_classes": 0}, {"num_classes": 71}, {"val_fraction": 1.0}, {"seed": -1}, {"num_images": 1}]
)
def test_impossible_wishes_are_refused_and_leave_nothing(tmp_path: Path, request_: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        make_coco(tmp_path / "set", **{"num_images": 10, "num_workers": 1, **request_})
    assert not list(tmp_path.iterdir())


def test_the_format_is_found_and_summarises(build: Build) -> None:
    format_ = find_format("coco")
    summary = format_.summarise(build(content(box_record())))
    assert (summary.num_train, summary.num_val, summary.num_classes) == (1, 0, 2)


# -- 2014 --------------------------------------------------------------------------------------------------------------


def image_record(number: int) -> dict[str, Any]:
    return {"id": number, "file_name": f"{number}.jpg", "height": HEIGHT, "width": WIDTH}


def polygon_record(number: int, image: int, left: int) -> dict[str, Any]:
    corners = [left, 10, left + 10, 10, left + 10, 30, left, 30]
    return box_record(id=number, image_id=image, bbox=[left, 10, 10, 20], segmentation=[corners])


@pytest.fixture
def folder_2014(tmp_path: Path, encode: Encode) -> Path:
    """Images 1 and 2 of train2014; 3, 4 and 5 of val2014."""
    root = tmp_path / "coco2014"
    (root / "annotations").mkdir(parents=True)
    for split, numbers in (("train2014", (1, 2)), ("val2014", (3, 4, 5))):
        (root / split).mkdir()
        for number in numbers:
            (root / split / f"{number}.jpg").write_bytes(encode(quality=90))
        write_2014(root, split, numbers)
    return root


def write_2014(root: Path, split: str, numbers: tuple[int, ...]) -> None:
    records = [polygon_record(10 * number + extra, number, 5 * number) for number in numbers for extra in (0, 1)]
    told = content(*records, images=[image_record(number) for number in numbers])
    (root / f"annotations/instances_{split}.json").write_text(json.dumps(told))


def test_train_and_val_of_2014_are_joined_without_an_evaluation(folder_2014: Path) -> None:
    folder = read_coco(folder_2014)
    assert folder.val is None
    train = folder.train
    assert train.name == "train2014+val2014"
    paths = ["train2014/1.jpg", "train2014/2.jpg", "val2014/3.jpg", "val2014/4.jpg", "val2014/5.jpg"]
    assert [train.path(index) for index in range(len(train.images))] == paths
    for index, number in enumerate((1, 2, 3, 4, 5)):
        own = list(train.instances.of_image(index))
        assert train.instances.ids[own].tolist() == [10 * number, 10 * number + 1]
        mask = bitmaps(train, own, index)[0]
        assert np.flatnonzero(mask.any(axis=0)).tolist() == list(range(5 * number, 5 * number + 10))


def test_minival_of_2014_is_evaluated_and_the_rest_of_val_is_trained_on(folder_2014: Path) -> None:
    write_2014(folder_2014, "valminusminival2014", (3, 5))
    write_2014(folder_2014, "minival2014", (4,))
    (folder_2014 / "val2014/note.txt").write_text("of nobody")
    folder = read_coco(folder_2014)
    assert folder.val is not None
    assert [folder.val.path(0), folder.val.images.ids.tolist()] == ["val2014/4.jpg", [4]]
    assert folder.train.images.ids.tolist() == [1, 2, 3, 5]
    report = check_coco(folder_2014, decode=True, num_workers=1)
    assert [(split.name, split.num_samples) for split in report.splits] == [
        ("train2014", 2), ("valminusminival2014", 2), ("minival2014", 1),
    ]  # fmt: skip
    assert (report.num_ignored, report.faults) == (1, ())


def test_faults_of_joined_parts_are_named_by_their_own_file(folder_2014: Path) -> None:
    path = folder_2014 / "annotations/instances_val2014.json"
    told = json.loads(path.read_text())
    told["annotations"][0]["bbox"] = [5, 10, 0, 20]
    path.write_text(json.dumps(told))
    folder = read_coco(folder_2014)
    assert list(folder.train.problems) == [2], "counted over both files"
    told["categories"].pop()
    path.write_text(json.dumps(told))
    with pytest.raises(DataError) as caught:
        read_coco(folder_2014)
    assert "instances_val2014.json: has different categories than annotations/instances_train2014.json" in str(
        caught.value.why
    )


def test_2017_comes_before_2014(build: Build, folder_2014: Path) -> None:
    both = build(content(box_record()))
    for folder in ("annotations", "train2014", "val2014"):
        for file in (folder_2014 / folder).iterdir():
            (both / folder).mkdir(exist_ok=True)
            (both / folder / file.name).write_bytes(file.read_bytes())
    assert read_coco(both).train.name == "train2017"


BOMBS = {
    "deep": b"[" * 300_000,
    "deep objects": b'{"images":' * 100_000,
    "a huge integer": b'{"images": [{"id": ' + b"9" * 6000 + b"}]}",
    "a key twice": b'{"images": [], "images": [], "annotations": [], "categories": []}',
    "a deep polygon": json.dumps(content(box_record(segmentation="@"))).encode().replace(
        b'"@"', b"[" * 2000 + b"]" * 2000
    ),
    "an infinite image": json.dumps(content(box_record())).encode().replace(b'"width": 80', b'"width": 1e400'),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_a_fault(build: Build, name: str) -> None:
    root = build(BOMBS[name])
    assert [usable for _, usable in kinds(root)] == [False] * len(kinds(root)) != []


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "/dev/zero"])
@pytest.mark.timeout(60)
def test_annotations_that_are_not_a_file_are_a_fault(build: Build, make: Callable[[Path], None]) -> None:
    root = build(content(box_record()))
    path = root / "annotations/instances_train2017.json"
    path.unlink()
    make(path)
    assert (FaultKind.UNREADABLE, False) in kinds(root)
