from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trainmark.datasets import jpeg_check
from trainmark.datasets.imagenet.check import check_folder
from trainmark.datasets.report import FaultKind
from trainmark.errors import DataError

BuildFolder = Callable[[dict[str, list[str]]], Path]
Encode = Callable[..., bytes]
both_depths = pytest.mark.parametrize("decode", [False, True])


@both_depths
def test_good_folder(build_folder: BuildFolder, encode: Encode, decode: bool) -> None:
    root = build_folder({"train/a": ["1.jpg", "2.jpg", "x.txt"], "train/b": ["1.jpg"], "val/b": ["1.jpg"]})
    report = check_folder(root, decode=decode, num_workers=2)
    assert report.ok
    assert report.decoded is decode
    assert report.classes == ("a", "b")
    assert [(s.name, s.num_samples, dict(s.counts)) for s in report.splits] == [
        ("train", 3, {"a": 2, "b": 1}),
        ("val", 1, {"b": 1}),
    ]
    assert report.num_samples == 4
    assert report.num_ignored == 1
    assert report.num_bytes == 4 * len(encode(quality=90))


@both_depths
def test_every_fault_is_listed_with_its_path(build_folder: BuildFolder, encode: Encode, decode: bool) -> None:
    root = build_folder({"train/a": ["good.jpg"], "train/b": [], "val/z": ["1.jpg"]})
    whole = encode(quality=95)
    files = {
        "cmyk.jpg": encode("CMYK"),
        "cut.jpg": whole[: len(whole) // 2],
        "head.jpg": whole[:100],
        "page.jpg": b"<html>not found</html>",
        "picture.jpg": encode(file_format="PNG"),
        "void.jpg": b"",
    }
    for name, data in files.items():
        (root / "train/a" / name).write_bytes(data)
    report = check_folder(root, decode=decode, num_workers=1)
    assert not report.ok
    assert [(fault.path, fault.kind, fault.usable) for fault in report.faults] == [
        ("train/a/cmyk.jpg", FaultKind.MODE, True),
        ("train/a/cut.jpg", FaultKind.TRUNCATED, True),
        ("train/a/head.jpg", FaultKind.TRUNCATED, False),
        ("train/a/page.jpg", FaultKind.NOT_JPEG, False),
        ("train/a/picture.jpg", FaultKind.NOT_JPEG, True),
        ("train/a/void.jpg", FaultKind.EMPTY_FILE, False),
        ("train/b", FaultKind.EMPTY_CLASS, False),
        ("val/z", FaultKind.UNKNOWN_CLASS, False),
    ]
    assert all(fault.problem for fault in report.faults)
    assert [note.path for note in report.notes] == ["train/a/cmyk.jpg", "train/a/picture.jpg"]


@both_depths
def test_hidden_names_are_counted_and_not_looked_at(build_folder: BuildFolder, decode: bool) -> None:
    root = build_folder({"train/a": ["1.jpg"], "train/.cache": ["2.jpg"]})
    (root / "train/a/.half.jpg").write_bytes(b"")
    report = check_folder(root, decode=decode, num_workers=1)
    assert (report.faults, report.classes) == ((), ("a",))
    assert (report.num_samples, report.num_ignored) == (1, 2)


def test_only_decoding_sees_damaged_pixels(build_folder: BuildFolder, encode: Encode) -> None:
    pytest.importorskip("simplejpeg")
    root = build_folder({"train/a": ["1.jpg"]})
    data = bytearray(encode(quality=95))
    data[len(data) // 2 : len(data) // 2 + 200] = bytes(200)
    (root / "train/a/1.jpg").write_bytes(data)
    assert check_folder(root, decode=False, num_workers=1).ok
    (fault,) = check_folder(root, decode=True, num_workers=1).faults
    assert (fault.kind, fault.usable) == (FaultKind.CORRUPT, True)


@both_depths
def test_long_headers_and_long_tails_are_no_faults(build_folder: BuildFolder, encode: Encode, decode: bool) -> None:
    root = build_folder({"train/a": ["1.jpg"]})
    data = encode()
    profile = b"".join(b"\xff\xe2" + (60_002).to_bytes(2) + bytes(60_000) for _ in range(2))
    (root / "train/a/profile.jpg").write_bytes(data[:2] + profile + data[2:])
    (root / "train/a/tail.jpg").write_bytes(data + bytes(100_000))
    assert check_folder(root, decode=decode, num_workers=1).faults == ()


@both_depths
def test_a_claim_of_too_many_pixels(build_folder: BuildFolder, encode: Encode, decode: bool) -> None:
    root = build_folder({"train/a": ["1.jpg"]})
    data = bytearray(encode())
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = b"\xff\xff\xff\xff"
    (root / "train/a/1.jpg").write_bytes(data)
    (fault,) = check_folder(root, decode=decode, num_workers=1).faults
    assert fault.kind is FaultKind.TOO_LARGE


@both_depths
@pytest.mark.parametrize("beginning", [b"", b"\xff\xd8\xff"])
def test_a_file_larger_than_memory_is_named_and_not_read(
    build_folder: BuildFolder, decode: bool, beginning: bytes
) -> None:
    root = build_folder({"train/a": ["1.jpg"]})
    with (root / "train/a/z.JPEG").open("wb") as file:
        file.write(beginning)
        file.truncate(2**40)  # all of it a hole
    report = check_folder(root, decode=decode, num_workers=1)
    (fault,) = report.faults
    assert (fault.path, fault.kind, fault.usable) == ("train/a/z.JPEG", FaultKind.TOO_LARGE, False)
    assert fault.problem.startswith("1.0 TiB")


def test_file_that_cannot_be_opened(build_folder: BuildFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    root = build_folder({"train/a": ["1.jpg", "2.jpg"]})

    def refuse(path: Path, mode: str) -> object:
        if path.name == "2.jpg":
            raise PermissionError(13, "Permission denied", str(path))
        return path.open(mode)

    monkeypatch.setattr(jpeg_check, "open", refuse, raising=False)
    (fault,) = check_folder(root, decode=True, num_workers=1).faults
    assert (fault.path, fault.kind, fault.problem) == ("train/a/2.jpg", FaultKind.UNREADABLE, "Permission denied")


def test_links_out_of_the_folder_are_not_opened(build_folder: BuildFolder) -> None:
    root = build_folder({"train/a": ["1.jpg"]})
    (root / "train/a/2.jpg").symlink_to("/etc/passwd")
    report = check_folder(root, decode=True, num_workers=1)
    assert [fault.kind for fault in report.faults] == [FaultKind.OUTSIDE]
    assert report.num_samples == 1


def test_many_files_are_shared_among_threads(build_folder: BuildFolder) -> None:
    root = build_folder({"train/a": [f"{index:04d}.jpg" for index in range(600)]})
    (root / "train/a/0599.jpg").write_bytes(b"")
    report = check_folder(root, decode=True, num_workers=3)
    assert [fault.path for fault in report.faults] == ["train/a/0599.jpg"]


def test_no_folder_is_an_error_and_not_a_report(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not found"):
        check_folder(tmp_path / "nowhere", decode=False)


def test_no_workers_are_refused(build_folder: BuildFolder) -> None:
    with pytest.raises(DataError, match="--workers: must be"):
        check_folder(build_folder({"train/a": ["1.jpg"]}), decode=False, num_workers=0)
