from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import cv2
import numpy as np
import pytest

from trainmark.datasets.coco.make import make_coco
from trainmark.datasets.formats import MakeRequest, check_dataset, find_format, make_dataset
from trainmark.datasets.icdar2015.check import check_folder
from trainmark.datasets.icdar2015.lettering import draw_mask, invent_text
from trainmark.datasets.icdar2015.make import Page, make_icdar2015
from trainmark.datasets.icdar2015.read import UnusableImageError, read_folder, read_image
from trainmark.datasets.icdar2015.scene import draw_scene
from trainmark.datasets.icdar2015.words import MAX_LABEL_BYTES, fit_words, parse_words, quad_area
from trainmark.datasets.report import FaultKind
from trainmark.errors import DataError

SMALL = Page(height=120, width=200, max_words=4)
TRAIN = "ch4_training_images", "ch4_training_localization_transcription_gt"
TEST = "ch4_test_images", "Challenge4_Test_Task1_GT"
FILL = cv2.fillConvexPoly


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_icdar2015(tmp_path / "made", num_images=6, val_fraction=0.5, num_workers=1, page=SMALL)
    return tmp_path / "made"


def label(root: Path, number: int, split: tuple[str, str] = TRAIN) -> Path:
    return root / split[1] / f"gt_img_{number}.txt"


def image(root: Path, number: int, split: tuple[str, str] = TRAIN) -> Path:
    return root / split[0] / f"img_{number}.jpg"


# -- label files -------------------------------------------------------------------------------------------------------


def test_lines_with_bom_commas_and_do_not_care() -> None:
    data = "\ufeff377,117,463,117,465,130,378,130,Genaxis Theatre\r\n1,2,3,2,3,4,1,4,1,200\r\n0,0,5,0,5,5,0,5,###\r\n"
    words, problems = parse_words(data.encode())
    assert problems == []
    assert [word.text for word in words] == ["Genaxis Theatre", "1,200", "###"]
    assert [word.is_ignored for word in words] == [False, False, True]
    assert words[0].quad.tolist() == [[377, 117], [463, 117], [465, 130], [378, 130]]


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\r\n\r\n"])
def test_an_image_without_text_is_legal(data: bytes) -> None:
    assert parse_words(data) == ([], [])


@pytest.mark.parametrize(
    "line", ["1,2,3", "1,2,3,4,5,6,7", "a,2,3,2,3,4,1,4,x", "nan,2,3,2,3,4,1,4,x", "1e9,2,3,2,3,4,1,4,x"]
)
def test_a_bad_line_is_named_and_the_others_count(line: str) -> None:
    words, (problem,) = parse_words(f"0,0,9,0,9,9,0,9,good\n{line}\n0,0,9,0,9,9,0,9,too\n".encode())
    assert [word.text for word in words] == ["good", "too"]
    assert problem.kind is FaultKind.BAD_LINE
    assert problem.what.startswith("line 2: ")


def test_other_encodings_cost_the_text_and_not_the_corners() -> None:
    words, (problem,) = parse_words("0,0,9,0,9,9,0,9,Café\n".encode("latin-1"))
    assert problem.kind is FaultKind.NOT_TEXT
    assert words[0].quad.max() == 9


def test_a_huge_file_is_not_parsed() -> None:
    words, (problem,) = parse_words(b"0,0,9,0,9,9,0,9,x\n" * (MAX_LABEL_BYTES // 10))
    assert words == []
    assert problem.kind is FaultKind.TOO_LARGE


def test_corners_outside_are_moved_to_the_edge_and_named() -> None:
    words, _ = parse_words(
        b"-5,10,50,10,50,40,-5,40,part\n300,10,350,10,350,40,300,40,gone\n0,0,200,0,200,100,0,100,whole\n"
    )
    fitted, problems = fit_words(words, height=100, width=200)
    assert [word.text for word in fitted] == ["part", "whole"]
    assert fitted[0].quad[:, 0].min() == 0
    assert [problem.kind for problem in problems] == [FaultKind.OUTSIDE_IMAGE] * 2
    assert "partly" in problems[0].what
    assert "fully" in problems[1].what


def test_a_polygon_without_an_area_is_left_out_and_named() -> None:
    words, _ = parse_words(b"5,5,5,5,5,5,5,5,dot\n0,0,10,0,20,0,30,0,line\n0,0,10,10,10,0,0,10,bow tie\n")
    fitted, problems = fit_words(words, height=100, width=100)
    assert [word.text for word in fitted] == ["bow tie"]
    assert [problem.kind for problem in problems] == [FaultKind.ZERO_AREA] * 2


def test_area_of_a_quadrilateral() -> None:
    assert quad_area(np.array([[0, 0], [10, 0], [10, 4], [0, 4.0]])) == 40


# -- making ------------------------------------------------------------------------------------------------------------


def fingerprints(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_layout_counts_and_report(root: Path) -> None:
    assert {path.name for path in root.iterdir()} == {*TRAIN, *TEST}
    assert image(root, 1).exists()
    assert label(root, 3, TEST).read_bytes().startswith(b"\xef\xbb\xbf")
    report = check_folder(root, decode=True, num_workers=1)
    assert report.ok
    assert [split.num_samples for split in report.splits] == [3, 3]
    assert all(split.counts["words"] > 0 for split in report.splits)
    summary = find_format("icdar2015").summarise(root)
    assert (summary.num_train, summary.num_val, summary.num_classes) == (3, 3, 1)


def test_bytes_do_not_depend_on_workers_and_a_larger_set_holds_the_smaller(tmp_path: Path) -> None:
    for name, num, workers in (("one", 20, 1), ("two", 20, 2), ("more", 30, 1)):
        make_icdar2015(tmp_path / name, num_images=num, val_fraction=0.5, num_workers=workers, page=SMALL, seed=3)
    one, more = fingerprints(tmp_path / "one"), fingerprints(tmp_path / "more")
    assert one == fingerprints(tmp_path / "two")
    assert one.items() <= more.items()
    pictures = [digest for path, digest in more.items() if path.endswith(".jpg")]
    assert len(set(pictures)) == 30


def test_the_public_sets_size_by_default(tmp_path: Path) -> None:
    report = make_dataset("icdar2015", tmp_path / "made", MakeRequest(num_samples=2, val_fraction=0.5, num_workers=1))
    assert (report.num_train, report.num_val) == (1, 1)
    read = read_image(tmp_path / "made", read_folder(tmp_path / "made").train, 0)
    assert read.pixels.shape == (720, 1280, 3)
    assert check_dataset("icdar2015", tmp_path / "made", decode=True, num_workers=1).ok


def test_quads_hold_the_ink_tightly(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a plain page, what differs from the page lies inside the quads and reaches all four sides of each."""
    page = Page(height=360, width=640, max_words=4, ignored_part=0.0)
    scene = "trainmark.datasets.icdar2015.scene"
    monkeypatch.setattr(f"{scene}._background", lambda rng, height, width: np.full((height, width, 3), 30, np.uint8))
    monkeypatch.setattr(f"{scene}._with_grain", lambda canvas, rng, seed: canvas)
    monkeypatch.setattr(
        f"{scene}.cv2.fillConvexPoly", lambda canvas, *rest: None if canvas.ndim == 3 else FILL(canvas, *rest)
    )
    num_words = 0
    for index in range(6):
        pixels, words = draw_scene(seed=1, split=0, index=index, page=page)
        ink = np.abs(pixels.astype(int) - 30).max(axis=2) > 60
        inside = np.zeros(ink.shape, np.uint8)
        for quad, _ in words:
            num_words += 1
            mask = np.zeros(ink.shape, np.uint8)
            FILL(mask, quad.astype(np.int32), 1)
            inside |= mask
            square = np.array([[0, 0], [99, 0], [99, 49], [0, 49]], np.float32)
            upright = cv2.warpPerspective(
                (ink * 255).astype(np.uint8), cv2.getPerspectiveTransform(quad.astype(np.float32), square), (100, 50)
            )
            rows, columns = np.nonzero(upright > 100)
            assert rows.min() <= 4
            assert rows.max() >= 45
            assert columns.min() <= 4
            assert columns.max() >= 95
        grown = cv2.dilate(inside, np.ones((3, 3), np.uint8))
        assert (ink & (grown == 0)).sum() == 0
    assert num_words > 8


def test_words_of_a_page_do_not_overlap_and_some_are_ignored() -> None:
    num_words = num_ignored = num_commas = 0
    for index in range(30):
        _, words = draw_scene(seed=0, split=0, index=index, page=Page(height=240, width=400))
        cover = np.zeros((240, 400), np.uint8)
        for quad, text in words:
            mask = np.zeros_like(cover)
            cv2.fillConvexPoly(mask, quad.astype(np.int32), 1)
            cover += mask
            num_words += 1
            num_ignored += text == "###"
            num_commas += "," in text
        assert cover.max() <= 1
    assert 0.05 < num_ignored / num_words < 0.3
    assert num_commas > 0


def test_lettering_comes_in_several_fonts() -> None:
    masks = [draw_mask(np.random.default_rng(seed), "Rung", 40.0) for seed in range(24)]
    assert len({mask.tobytes() for mask in masks}) == 24
    inked = [mask.mean() / 255 for mask in masks]  # thin and bold
    assert max(inked) > 1.5 * min(inked)
    shapes = [mask.shape[1] / mask.shape[0] for mask in masks]  # narrow and wide
    assert max(shapes) > 1.5 * min(shapes)
    assert all(mask[edge].max() > 64 for mask in masks for edge in (0, -1)), "cropped to the ink"
    texts = {invent_text(np.random.default_rng(seed), 8) for seed in range(40)}
    assert len(texts) > 35
    assert any("," in text for text in texts)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"num_images": 0}, "too few"),
        ({"num_images": 2, "val_fraction": 0.1}, "too few"),
        ({"val_fraction": 1.0}, "--val-fraction: must be"),
        ({"seed": -1}, "--seed: must be"),
        ({"page": Page(height=8)}, "cannot (draw|make)"),
        ({"page": Page(max_words=0)}, "0 words"),
        ({"page": Page(word_height=(0.5, 0.2))}, "cannot (draw|make)"),
    ],
)
def test_impossible_wishes_are_refused_and_nothing_is_left(
    tmp_path: Path, changes: dict[str, object], match: str
) -> None:
    with pytest.raises(DataError, match=match):
        make_icdar2015(tmp_path / "made", **{"num_images": 10, "num_workers": 1, **changes})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_without_opencv_making_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "cv2" else find(name, *rest))
    with pytest.raises(DataError, match="OpenCV is not installed"):
        make_icdar2015(tmp_path / "made", num_images=4)
    with pytest.raises(DataError, match="OpenCV is not installed"):
        make_coco(tmp_path / "made", num_images=4)
    assert list(tmp_path.iterdir()) == []


# -- faults ------------------------------------------------------------------------------------------------------------


def test_every_fault_is_listed_with_its_path(root: Path) -> None:
    whole = image(root, 1).read_bytes()
    image(root, 1).write_bytes(whole[: len(whole) // 2])
    label(root, 2).unlink()
    label(root, 3).write_bytes(b"1,2,3\n-9,0,50,0,50,50,-9,50,x\n5,5,5,5,5,5,5,5,y\n0,0,9,0,9,9,0,9,\xff\n")
    image(root, 1, TEST).unlink()
    label(root, 2, TEST).write_bytes(b"")
    image(root, 3, TEST).unlink()
    image(root, 3, TEST).symlink_to("/etc/hostname")
    report = check_folder(root, decode=True, num_workers=1)
    found = [(fault.path.rsplit("/", 1)[1], fault.kind) for fault in report.faults]
    assert sorted(found) == sorted(
        [
            ("img_1.jpg", FaultKind.TRUNCATED),
            ("img_2.jpg", FaultKind.MISSING_LABEL),
            ("gt_img_3.txt", FaultKind.BAD_LINE),
            ("gt_img_3.txt", FaultKind.OUTSIDE_IMAGE),
            ("gt_img_3.txt", FaultKind.ZERO_AREA),
            ("gt_img_3.txt", FaultKind.NOT_TEXT),
            ("gt_img_1.txt", FaultKind.MISSING_IMAGE),
            ("gt_img_3.txt", FaultKind.MISSING_IMAGE),
            ("img_3.jpg", FaultKind.OUTSIDE),
        ]
    )
    assert all(fault.problem for fault in report.faults)
    assert check_dataset("icdar2015", root, decode=False, num_workers=1).num_samples == 4


@pytest.mark.parametrize(
    ("data", "usable"),
    [
        (b"1,2,3\n0,0,9,0,9,9,0,9,x\n", True),
        (b"1,2,3\n", False),
        (b"x" * (MAX_LABEL_BYTES + 1), False),
        (b"5,5,5,5,5,5,5,5,y\n", True),
    ],
)
def test_bad_lines_are_notes_where_the_label_file_has_words(root: Path, data: bytes, usable: bool) -> None:
    label(root, 1).write_bytes(data)
    report = check_folder(root, decode=True, num_workers=1)
    assert [fault.usable for fault in report.faults] == [usable]
    assert report.ok is usable


def test_one_missing_label_does_not_stop_a_run_and_all_do(root: Path) -> None:
    label(root, 2).unlink()
    scan = read_folder(root)
    with pytest.raises(UnusableImageError, match="no label file"):
        read_image(scan.root, scan.train, 1)
    for number in (1, 3):
        label(root, number).unlink()
    with pytest.raises(DataError, match=r"no image has a label file .* in train"):
        read_folder(root)


def test_images_are_read_with_what_is_wrong_about_them(root: Path) -> None:
    whole = image(root, 1).read_bytes()
    image(root, 1).write_bytes(whole[: len(whole) // 2])
    label(root, 1).write_bytes(b"1,2\n0,0,50,0,50,50,0,50,x\n")
    scan = read_folder(root)
    read = read_image(scan.root, scan.train, 0)
    assert [word.text for word in read.words] == ["x"]
    assert [path.rsplit("/", 1)[1] for path, _ in read.problems] == ["img_1.jpg", "gt_img_1.txt"]
    image(root, 2).write_bytes(b"<html>")
    with pytest.raises(UnusableImageError, match="not a JPEG"):
        read_image(scan.root, scan.train, 1)


def test_layouts_that_cannot_be_used_are_one_error(root: Path, tmp_path: Path) -> None:
    image(root, 1).unlink()
    image(root, 1).symlink_to("/etc/hostname")
    image(root, 2).unlink()
    image(root, 2).symlink_to("nothing")
    for path in (root / TEST[0]).iterdir():
        path.unlink()
    with pytest.raises(DataError) as caught:
        find_format("icdar2015").summarise(root)
    for part in ("outside the folder", "img_1.jpg", "broken links", "img_2.jpg", "no .jpg file in ch4_test_images"):
        assert part in caught.value.why
    for bad, match in (
        (tmp_path / "nowhere", "not found"),
        (tmp_path, "not in the layout"),
        (image(root, 3), "not a folder"),
    ):
        with pytest.raises(DataError, match=match):
            read_folder(bad)


@pytest.mark.parametrize("decode", [True, False])
def test_an_image_larger_than_memory_is_named_and_not_read(root: Path, decode: bool) -> None:
    with image(root, 1).open("wb") as file:
        file.truncate(2**40)
    (fault,) = check_folder(root, decode=decode, num_workers=1).faults
    assert (fault.path, fault.kind) == (f"{TRAIN[0]}/img_1.jpg", FaultKind.TOO_LARGE)


def test_hidden_files_are_only_counted(root: Path) -> None:
    before = read_folder(root)
    for path in (image(root, 1), label(root, 1)):
        (path.parent / f".{path.name}").write_bytes(b"half a copy")
    (image(root, 2).parent / ".link.jpg").symlink_to("/etc/hostname")
    assert read_folder(root).train.images == before.train.images
    report = check_folder(root, decode=True, num_workers=1)
    assert (report.faults, report.num_ignored) == ((), 3)


def test_missing_label_folder_is_named(root: Path) -> None:
    for path in (root / TRAIN[1]).iterdir():
        path.unlink()
    (root / TRAIN[1]).rmdir()
    with pytest.raises(DataError, match=TRAIN[1]):
        read_folder(root)


def test_images_and_labels_side_by_side(root: Path, tmp_path: Path) -> None:
    simple = tmp_path / "simple"
    for split, folders in (("train", TRAIN), ("val", TEST)):
        (simple / split).mkdir(parents=True)
        for folder in folders:
            for path in (root / folder).iterdir():
                path.rename(simple / split / path.name)
    report = check_folder(simple, decode=True, num_workers=1)
    assert report.ok
    assert (report.num_samples, report.num_ignored) == (6, 0)


def test_images_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    make_icdar2015(tmp_path / "made", num_images=11, val_fraction=0, num_workers=1, page=SMALL)
    scan = read_folder(tmp_path / "made")
    assert [path.rsplit("_", 1)[1] for path in scan.train.images] == [f"{number}.jpg" for number in range(1, 12)]
    assert scan.val is None


def test_test_labels_under_the_name_that_the_authors_of_psenet_use(root: Path) -> None:
    (root / TEST[1]).rename(root / "ch4_test_localization_transcription_gt")
    folder = read_folder(root)
    assert folder.val is not None
    assert len(folder.val.images) == 3
    assert all(folder.val.labels)
