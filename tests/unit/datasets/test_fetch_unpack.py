"""Archives, good and malicious; all are made here. Nothing may land outside, and nothing half-done may stay."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import stat
import subprocess
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trainmark.datasets.fetch.extraction import Extraction, Limits
from trainmark.datasets.fetch.unpack import unpack_archive
from trainmark.errors import DataError

FILES = {"data/train/a.jpg": b"a" * 1000, "data/val/b.jpg": b"b" * 70_000, "data/empty": b""}


def unpack(archive: Path, folder: Path, limits: Limits | None = None) -> int:
    return unpack_archive(archive, folder, lambda done, total: None, limits=limits)


def make_tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, b""


def plain_file(name: str, data: bytes = b"data") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), data


def make_zip(path: Path, members: list[tuple[zipfile.ZipInfo | str, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in members:
            archive.writestr(info, data)
    return path


def zip_member(name: str, mode: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("x")
    info.filename = name  # as it is: the constructor would mend it
    info.create_system = 3
    info.external_attr = mode << 16
    return info


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_tar(tmp_path: Path, mode: str, form: int) -> None:
    archive = tmp_path / "without-a-suffix"
    with tarfile.open(archive, mode, format=form) as tar:  # type: ignore[call-overload]
        for name, data in FILES.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    assert unpack(archive, tmp_path / "out") == 3
    assert contents(tmp_path / "out") == FILES


def test_zip(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a", [("data/", b""), *FILES.items(), ("win\\dows\\x", b"x")])
    assert unpack(archive, tmp_path / "out") == 4
    assert contents(tmp_path / "out") == {**FILES, "win/dows/x": b"x"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "out"]


def test_links_inside_are_made(tmp_path: Path) -> None:
    members = [
        member("a/link", tarfile.SYMTYPE, "../b/file"),
        plain_file("b/file"),
        member("b/hard", tarfile.LNKTYPE, "b/file"),
        member("dangling", tarfile.SYMTYPE, "b/none"),
    ]
    assert unpack(make_tar(tmp_path / "t", members), tmp_path / "out") == 4
    out = tmp_path / "out"
    assert (out / "a" / "link").readlink() == Path("../b/file")
    assert (out / "a" / "link").read_bytes() == (out / "b" / "hard").read_bytes() == b"data"
    assert (out / "dangling").is_symlink()


def test_the_later_of_two_files_counts(tmp_path: Path) -> None:
    archive = make_tar(
        tmp_path / "t", [plain_file("x", b"1"), member("y", tarfile.LNKTYPE, "x"), plain_file("x", b"2")]
    )
    assert unpack(archive, tmp_path / "out") == 2
    assert contents(tmp_path / "out") == {"x": b"2", "y": b"1"}


def links_that_add_up(link: str, way: str) -> list[tuple[tarfile.TarInfo, bytes]]:
    """A link to the folder it stands in looks like a step down each time a way passes it."""
    return [
        plain_file("a/b/c"),
        member(f"a/b/{link}", tarfile.SYMTYPE, "."),
        member("evil", tarfile.SYMTYPE, f"a/b/{way}/../../../../secret"),
    ]


EVIL_TARS: dict[str, tuple[list[tuple[tarfile.TarInfo, bytes]], str]] = {
    "dots": ([plain_file("../evil")], "outside"),
    "dots inside": ([plain_file("a/../../evil")], "outside"),
    "dots that come back": ([plain_file("a/../evil")], "outside"),
    "absolute": ([plain_file("/tmp/evil-of-a-test")], "absolute path"),
    "folder": ([member("../evil", tarfile.DIRTYPE)], "outside"),
    "symlink": ([member("evil", tarfile.SYMTYPE, "../../secret")], "outside"),
    "absolute symlink": ([member("evil", tarfile.SYMTYPE, "/etc/passwd")], "absolute"),
    "through a symlink": ([member("way", tarfile.SYMTYPE, ".."), plain_file("way/evil")], "outside"),
    "through an inner symlink": (
        [member("way", tarfile.SYMTYPE, "a"), plain_file("way/evil")],
        "name of another member",
    ),
    "links that add up": (links_that_add_up("x", "x/x/x"), "link"),
    "link that stands elsewhere": (
        [
            plain_file("z/c/file"),
            plain_file("a/file"),
            member("a/b", tarfile.SYMTYPE, "../z"),
            member("a/b/c/evil", tarfile.SYMTYPE, "../../../secret"),
        ],
        "link",
    ),
    "link that stands elsewhere where case does not count": (
        [
            plain_file("z/c/file"),
            member("a/b", tarfile.SYMTYPE, "../z"),
            member("A/B/c/evil", tarfile.SYMTYPE, "../../../secret"),
        ],
        "through another link",
    ),
    "links that add up where case does not count": (
        links_that_add_up("x", "X/X/X"),
        "through another link",
    ),
    "links that add up however accents are written": (
        links_that_add_up("\u00e9", "e\u0301/e\u0301/E\u0301"),
        "through another link",
    ),
    "hard link": ([member("evil", tarfile.LNKTYPE, "../secret")], "outside"),
    "absolute hard link": ([member("evil", tarfile.LNKTYPE, "/etc/passwd")], "absolute"),
    "hard link to a symlink": (
        [member("s", tarfile.SYMTYPE, "x"), member("evil", tarfile.LNKTYPE, "s")],
        "not an earlier file",
    ),
    "device": ([member("evil", tarfile.CHRTYPE)], "special file"),
    "disk": ([member("evil", tarfile.BLKTYPE)], "special file"),
    "pipe": ([member("evil", tarfile.FIFOTYPE)], "special file"),
    "file under a file": ([plain_file("x"), plain_file("x/y")], "with the same name"),
    "file over a folder": ([plain_file("x/y"), plain_file("x")], "with the same name"),
    "link over a file": ([plain_file("x"), member("x", tarfile.SYMTYPE, "y")], "name of another member"),
    "no name": ([plain_file("./")], "without a name"),
}


@pytest.mark.parametrize("case", EVIL_TARS)
def test_evil_tars_leave_nothing_anywhere(tmp_path: Path, case: str) -> None:
    members, says = EVIL_TARS[case]
    (tmp_path / "secret").write_text("secret")
    inner = tmp_path / "inner"
    inner.mkdir()
    archive = make_tar(inner / "t", [plain_file("good"), *members])
    with pytest.raises(DataError, match="was not unpacked") as caught:
        unpack(archive, inner / "out")
    assert says in caught.value.why
    assert str(inner / ".out") not in str(caught.value)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["inner", "inner/t", "secret"]
    assert not Path("/tmp/evil-of-a-test").exists()


def begin_with_a_link(tmp_path: Path) -> Extraction:
    """A link `way` to the outside that no check of names foresaw, as a file system of other rules may have it."""
    for name in ("outside", "folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "archive").touch()
    (tmp_path / "folder" / "way").symlink_to("../outside")
    return Extraction(tmp_path / "archive", tmp_path / "folder", Limits())


def test_nothing_is_made_behind_a_link_that_is_there(tmp_path: Path) -> None:
    extraction = begin_with_a_link(tmp_path)
    with pytest.raises(DataError, match="a path through a link"):
        extraction.add_file("way/evil", 4, io.BytesIO(b"evil"))
    with pytest.raises(DataError, match="a path through a link"):
        extraction.add_folder("way/deep/evil")
    extraction.add_link("way/deep/evil", "x")
    with pytest.raises(DataError, match="a path through a link"):
        extraction.finish()
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_link_that_ends_outside_by_the_file_system_s_own_word(tmp_path: Path) -> None:
    extraction = begin_with_a_link(tmp_path)
    extraction.add_link("evil", "way/secret")
    with pytest.raises(DataError, match="points outside"):
        extraction.finish()


def test_links_that_end_nowhere_or_in_a_ring_are_no_harm(tmp_path: Path) -> None:
    members = [member("a/x", tarfile.SYMTYPE, "../b/x"), member("b/x", tarfile.SYMTYPE, "../a/x")]
    assert unpack(make_tar(tmp_path / "t", [*members, member("c", tarfile.SYMTYPE, "none/x")]), tmp_path / "out") == 3


EVIL_ZIPS: dict[str, tuple[zipfile.ZipInfo, bytes, str]] = {
    "dots": (zip_member("../evil"), b"x", "outside"),
    "windows dots": (zip_member("..\\evil"), b"x", "outside"),
    "windows dots inside": (zip_member("a\\..\\..\\evil"), b"x", "outside"),
    "absolute": (zip_member("/tmp/evil-of-a-test"), b"x", "absolute"),
    "drive": (zip_member("C:\\evil"), b"x", "absolute"),
    "share": (zip_member("\\\\host\\evil"), b"x", "absolute"),
    "symlink": (zip_member("evil", stat.S_IFLNK | 0o777), b"../secret", "outside"),
    "absolute symlink": (zip_member("evil", stat.S_IFLNK | 0o777), b"/etc/passwd", "absolute"),
    "symlink with a zero": (zip_member("evil", stat.S_IFLNK | 0o777), b"a\0b", "without a target"),
    "long symlink": (zip_member("evil", stat.S_IFLNK | 0o777), b"a/" * 5000, "too long"),
    "device": (zip_member("evil", stat.S_IFCHR | 0o666), b"", "special file"),
}


@pytest.mark.parametrize("case", EVIL_ZIPS)
def test_evil_zips_leave_nothing_anywhere(tmp_path: Path, case: str) -> None:
    info, data, says = EVIL_ZIPS[case]
    inner = tmp_path / "inner"
    inner.mkdir()
    archive = make_zip(inner / "z", [("good", b"good"), (info, data)])
    with pytest.raises(DataError, match="was not unpacked") as caught:
        unpack(archive, inner / "out")
    assert says in caught.value.why
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["inner", "inner/z"]


def bomb_tar(path: Path) -> Path:
    return make_tar(path, [plain_file("zeros", bytes(2_000_000))])


def bomb_zip(path: Path) -> Path:
    return make_zip(path, [("zeros", bytes(2_000_000))])


def bomb_of_entries(path: Path) -> Path:
    return make_tar(path, [plain_file(f"{number}", b"") for number in range(3000)], "w:xz")


def bomb_in_a_header(path: Path) -> Path:
    info = tarfile.TarInfo("x")
    info.pax_headers = {"comment": "0" * 2_000_000}
    return make_tar(path, [(info, b"")])


def bomb_after_the_end(path: Path) -> Path:
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w"):
        pass
    path.write_bytes(gzip.compress(tar.getvalue() + bytes(2_000_000)))
    return path


@pytest.mark.parametrize("make", [bomb_tar, bomb_zip, bomb_of_entries, bomb_in_a_header, bomb_after_the_end])
def test_bombs(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    archive = make(tmp_path / "bomb")
    with pytest.raises(DataError, match="200-fold") as caught:
        unpack(archive, tmp_path / "out", Limits(min_bytes=1_000_000))
    assert "unpack it with tar or unzip" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["bomb"]


def test_a_bomb_at_the_usual_limits(tmp_path: Path) -> None:
    archive = tmp_path / "bomb"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file, file.open("zeros", "w") as member_:
        for _ in range(160):
            member_.write(bytes(2**20))
    with pytest.raises(DataError, match="200-fold"):
        unpack(archive, tmp_path / "out")


def test_a_zip_that_lies_about_its_size(tmp_path: Path) -> None:
    archive = bomb_zip(tmp_path / "z")
    data = archive.read_bytes()
    archive.write_bytes(data.replace((2_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(DataError, match="damaged"):
        unpack(archive, tmp_path / "out")


@contextmanager
def in_little_memory() -> Iterator[None]:
    """What was allocated before does not count."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("method", "says"), [(zipfile.ZIP_BZIP2, "bzip2"), (zipfile.ZIP_LZMA, "LZMA")])
@pytest.mark.parametrize("is_small", [True, False])
def test_a_zip_by_methods_without_bounds(tmp_path: Path, method: int, says: str, is_small: bool) -> None:
    num_bytes = 10 if is_small else 50 * 2**20
    with zipfile.ZipFile(tmp_path / "z", "w", method) as file:
        file.writestr("good", b"good", zipfile.ZIP_DEFLATED)
        with file.open("zeros", "w") as member_:
            for start in range(0, num_bytes, 2**20):
                member_.write(bytes(min(2**20, num_bytes - start)))
    data = (tmp_path / "z").read_bytes()
    (tmp_path / "z").write_bytes(data.replace(num_bytes.to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with in_little_memory(), pytest.raises(DataError, match="was not unpacked") as caught:
        unpack(tmp_path / "z", tmp_path / "out")
    assert f"'zeros' is compressed with {says}" in caught.value.why
    assert "unzip" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["z"]


def test_a_method_that_nobody_knows(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "z", [("x", b"data")])
    data = bytearray(archive.read_bytes())
    data[8] = data[data.index(b"PK\x01\x02") + 10] = 77
    archive.write_bytes(data)
    with pytest.raises(DataError, match="method 77"):
        unpack(archive, tmp_path / "out")


def test_a_link_in_a_zip_that_lies_about_its_size(tmp_path: Path) -> None:
    info = zip_member("link", stat.S_IFLNK | 0o777)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive = make_zip(tmp_path / "z", [(info, bytes(50 * 2**20))])
    data = archive.read_bytes()
    archive.write_bytes(data.replace((50 * 2**20).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with in_little_memory(), pytest.raises(DataError, match="was not unpacked"):
        unpack(archive, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["z"]


@pytest.mark.parametrize("make", [bomb_tar, bomb_zip])
def test_no_space(tmp_path: Path, make: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from trainmark.datasets.fetch import extraction

    monkeypatch.setattr(extraction.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1_000_000}))
    with pytest.raises(DataError) as caught:
        unpack(make(tmp_path / "t"), tmp_path / "out")
    assert "1.9 MiB needed, 976.6 KiB free" in caught.value.why
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_archives_that_are_cut_or_damaged(tmp_path: Path, mode: str) -> None:
    data = os.urandom(100_000)
    path = tmp_path / "t"
    make_zip(path, [("x", data)]) if mode == "zip" else make_tar(path, [plain_file("x", data)], mode)
    whole = path.read_bytes()
    path.write_bytes(whole[:60_000])
    with pytest.raises(DataError, match=r"damaged|no archive"):
        unpack(path, tmp_path / "out")
    if mode != "w":  # a plain tar has no checksum of its content
        path.write_bytes(whole[:50_000] + bytes([whole[50_000] ^ 1]) + whole[50_001:])
        with pytest.raises(DataError, match="damaged"):
            unpack(path, tmp_path / "out")
    assert [found.name for found in tmp_path.iterdir()] == ["t"]


TAR_ENTRY_BYTES = 512 + 3072
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "tar": lambda data: data,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}


def ten_files() -> bytes:
    """As GNU tar pads it: to a multiple of 10 KiB."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as file:
        for number in range(10):
            info = tarfile.TarInfo(f"train/{number}.jpg")
            info.size = 3000
            file.addfile(info, io.BytesIO(bytes([number + 1]) * 3000))
    return tar.getvalue()


def zeroed(data: bytes, start: int, num_bytes: int) -> bytes:
    return data[:start] + bytes(num_bytes) + data[start + num_bytes :]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


HALF, END = 5 * TAR_ENTRY_BYTES, 10 * TAR_ENTRY_BYTES
DAMAGED_TARS: dict[str, Callable[[bytes], bytes]] = {
    "bit flip in a later header": lambda data: flipped(data, HALF + 20),
    "bit flip in the second header": lambda data: flipped(data, TAR_ENTRY_BYTES + 20),
    "bit flip in the last header": lambda data: flipped(data, END - TAR_ENTRY_BYTES + 20),
    "cut between two files": lambda data: data[:HALF],
    "cut in a header": lambda data: data[: HALF + 200],
    "cut in the first file": lambda data: data[:2000],
    "cut before the end": lambda data: data[:END],
    "cut in the end": lambda data: data[: END + 512],
    "a page for the second part": lambda data: data[:HALF] + b"<html>log in</html>" * 100,
    "a page after the end": lambda data: data + b"<html>log in</html>",
    "a zeroed header": lambda data: zeroed(data, HALF, 512),
    "a zeroed first header": lambda data: zeroed(data, 0, 512),
    "two zeroed sectors": lambda data: zeroed(data, HALF, 1024),
    "a second archive": lambda data: data + data,
}


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("damage", DAMAGED_TARS)
def test_damaged_tars_are_never_unpacked_in_part(tmp_path: Path, damage: str, packer: str) -> None:
    archive = tmp_path / "t"
    archive.write_bytes(PACKERS[packer](DAMAGED_TARS[damage](ten_files())))
    with pytest.raises(DataError, match="damaged") as caught:
        unpack(archive, tmp_path / "out")
    assert "fetch it again" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("num_zeros", [1024, 1536, 5000, 3 * 2**20])
def test_the_end_of_a_tar_may_be_long(tmp_path: Path, num_zeros: int, packer: str) -> None:
    (tmp_path / "t").write_bytes(PACKERS[packer](ten_files()[:END] + bytes(num_zeros)))
    assert unpack(tmp_path / "t", tmp_path / "out") == 10


@pytest.mark.skipif(shutil.which("tar") is None, reason="no tar to make one with")
@pytest.mark.parametrize("form", ["gnu", "pax", "ustar", "oldgnu", "v7"])
@pytest.mark.parametrize("blocks", [1, 20, 64])
def test_what_the_tar_of_this_machine_makes(tmp_path: Path, form: str, blocks: int) -> None:
    source = tmp_path / "source" / ("long" * 15)
    source.mkdir(parents=True)
    (source / "zeros").write_bytes(bytes(4096))
    (source / "link").symlink_to("zeros")
    (source / "hard").hardlink_to(source / "zeros")
    with (source / "holes").open("wb") as file:
        file.truncate(2**20)
        file.seek(2**19)
        file.write(b"x")
    sparse = ["--sparse"] if form in ("gnu", "pax") else []
    command = ["tar", f"--format={form}", f"--blocking-factor={blocks}", *sparse, "-cf", "t", "-C", "source", "."]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert unpack(tmp_path / "t", tmp_path / "out") == 4
    assert contents(tmp_path / "out") == contents(tmp_path / "source")


@pytest.mark.parametrize(
    "data", [b"", b"<html>log in</html>" * 50, b"\x1f\x8bnonsense", b"BZhnonsense", b"PK\x03\x04no"]
)
def test_what_is_no_archive(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "page.tar.gz").write_bytes(data)
    with pytest.raises(DataError, match=r"not an archive|damaged") as caught:
        unpack(tmp_path / "page.tar.gz", tmp_path / "out")
    assert caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["page.tar.gz"]


def test_a_compressed_file_that_is_no_tar(tmp_path: Path) -> None:
    (tmp_path / "labels.json.gz").write_bytes(gzip.compress(b'{"a": 1}' * 1000))
    with pytest.raises(DataError, match="not an archive"):
        unpack(tmp_path / "labels.json.gz", tmp_path / "out")


def test_a_zip_with_a_password(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "z", [("x", b"data")])
    data = bytearray(archive.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(data)
    with pytest.raises(DataError, match="encrypted"):
        unpack(archive, tmp_path / "out")


def test_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(DataError, match="not empty"):
        unpack(make_zip(tmp_path / "z", [("mine", b"theirs")]), tmp_path / "out")
    assert (tmp_path / "out" / "mine").read_text() == "mine"
