"""The manifest: what sha256sum thinks of it, and that every difference is found."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.datasets import manifest as manifest_module
from trainmark.datasets.formats import MakeRequest, check_dataset, make_dataset
from trainmark.datasets.imagenet.read import read_folder
from trainmark.datasets.manifest import NAME, format_line, parse_line, verify_manifest, write_manifest
from trainmark.datasets.report import DataFault, FaultKind, ManifestState
from trainmark.errors import DataError

needs_sha256sum = pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum here")
ODD_NAMES = ["a.txt", "a/b", "a/c/d", "a0", "back\\slash", "new\nline", "two  spaces", "ü", "-n", "#hash"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for number, name in enumerate(ODD_NAMES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(bytes([number]) * 1000 * number)
    return root


def kinds(faults: tuple[DataFault, ...]) -> dict[str, FaultKind]:
    return {fault.path: fault.kind for fault in faults}


def listed(root: Path) -> list[bytes]:
    lines = (root / NAME).read_bytes().splitlines(keepends=True)
    entries = [parse_line(line) for line in lines[:-1]]
    return [entry[0] for entry in entries if entry is not None]


@needs_sha256sum
def test_sha256sum_agrees(tree: Path) -> None:
    (tree / os.fsdecode(b"not-text-\xff")).write_bytes(b"x")
    totals = write_manifest(tree)
    done = subprocess.run(["sha256sum", "-c", "--strict", "-w", NAME], cwd=tree, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b": OK") == totals.num_files == len(ODD_NAMES) + 1
    assert verify_manifest(tree) == ()


def test_the_bytes_of_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "a\\\n").write_bytes(b"abc")
    write_manifest(tmp_path)
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    expected = f"\\{abc}  a\\\\\\n\n{nothing}  b\n# 2 files, 3 bytes\n"
    assert (tmp_path / NAME).read_text() == expected
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_sorted_by_bytes_and_the_same_for_any_number_of_threads(tree: Path) -> None:
    write_manifest(tree, num_workers=1)
    first = (tree / NAME).read_bytes()
    assert listed(tree) == sorted(os.fsencode(name) for name in ODD_NAMES)
    (tree / NAME).unlink()
    write_manifest(tree, num_workers=7)
    assert (tree / NAME).read_bytes() == first


def test_each_difference_is_a_fault_with_its_path(tree: Path) -> None:
    (tree / ".hidden").write_text("not ours")
    (tree / "a" / ".cache").mkdir()
    (tree / "a" / ".cache" / "file").write_text("not ours")
    write_manifest(tree)
    (tree / "a.txt").write_text("other")
    (tree / "a" / "c" / "d").unlink()
    (tree / "a" / "c" / "new").write_text("new")
    (tree / ".hidden").write_text("changed")
    assert kinds(verify_manifest(tree)) == {
        "a.txt": FaultKind.CHANGED,
        "a/c/d": FaultKind.LOST,
        "a/c/new": FaultKind.UNLISTED,
    }


def test_one_flipped_bit_is_found(tree: Path) -> None:
    write_manifest(tree)
    path = tree / "ü"
    data = bytearray(path.read_bytes())
    data[17] ^= 1
    path.write_bytes(data)
    assert kinds(verify_manifest(tree)) == {"ü": FaultKind.CHANGED}


def test_many_files_in_many_tasks(tmp_path: Path) -> None:
    for number in range(1000):
        folder = tmp_path / f"{number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / str(number)).write_text(str(number))
    seen: list[tuple[int, int]] = []
    write_manifest(tmp_path, num_workers=3, on_hashed=lambda files, num_bytes: seen.append((files, num_bytes)))
    assert seen[-1] == (1000, sum(len(str(number)) for number in range(1000)))
    (tmp_path / "3" / "500").write_text("501")
    assert kinds(verify_manifest(tmp_path, num_workers=3)) == {"3/500": FaultKind.CHANGED}


def test_links_inside_are_hashed_and_links_outside_are_never_followed(tree: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (tree / "inside").symlink_to("a/b")
    (tree / "folder").symlink_to("a")
    write_manifest(tree)
    assert b"inside" in listed(tree)
    assert not [path for path in listed(tree) if path.startswith(b"folder")]
    (tree / "inside").unlink()
    (tree / "inside").symlink_to(secret)
    assert kinds(verify_manifest(tree)) == {"inside": FaultKind.OUTSIDE}
    (tree / NAME).unlink()
    with pytest.raises(DataError, match="inside: a link that points outside"):
        write_manifest(tree)
    assert not (tree / NAME).exists()


def test_a_manifest_that_names_paths_outside(tree: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_bytes(b"secret")
    (tree / "way").symlink_to(tmp_path / "elsewhere")
    write_manifest(tree)
    with (tree / NAME).open("a") as file:
        file.write(f"{digest}  ../secret\n{digest}  {tmp_path}/secret\n{digest}  way/secret\nnonsense\n")
    faults = verify_manifest(tree)
    assert kinds(faults) == {NAME: FaultKind.BAD_MANIFEST, "way/secret": FaultKind.OUTSIDE}
    assert [fault.problem.split(" is ")[0] for fault in faults if " is " in fault.problem] == [
        "line 12",
        "line 13",
        "line 15",
    ]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_manifest_that_is_no_plain_file(tree: Path, tmp_path: Path, kind: str) -> None:
    if kind == "link":
        (tmp_path / "other").write_text("secret")
        (tree / NAME).symlink_to(tmp_path / "other")
    elif kind == "pipe":
        os.mkfifo(tree / NAME)
    else:
        (tree / NAME).mkdir()
    assert kinds(verify_manifest(tree))[NAME] is FaultKind.BAD_MANIFEST


def test_a_pipe_does_not_stop_it(tree: Path) -> None:
    write_manifest(tree)
    (tree / "a.txt").unlink()
    os.mkfifo(tree / "a.txt")
    assert kinds(verify_manifest(tree)) == {"a.txt": FaultKind.UNREADABLE}


@needs_sha256sum
def test_a_manifest_that_another_program_wrote(tree: Path) -> None:
    (tree / ".hidden").write_text("listed, though hidden")
    names = ["./" + name for name in reversed([*ODD_NAMES, ".hidden"])]
    made = subprocess.run(["sha256sum", "-b", *names], cwd=tree, capture_output=True, check=True).stdout
    (tree / NAME).write_bytes(made)
    assert verify_manifest(tree) == ()
    (tree / ".hidden").unlink()
    assert kinds(verify_manifest(tree)) == {".hidden": FaultKind.LOST}


def test_a_manifest_cut_short_or_doubled(tree: Path) -> None:
    write_manifest(tree)
    lines = (tree / NAME).read_bytes().splitlines(keepends=True)
    (tree / NAME).write_bytes(b"".join(lines[1:]))
    assert kinds(verify_manifest(tree)) == {NAME: FaultKind.BAD_MANIFEST, "#hash": FaultKind.UNLISTED}
    (tree / NAME).write_bytes(b"".join(lines[:-1])[:-5])
    assert kinds(verify_manifest(tree)) == {NAME: FaultKind.BAD_MANIFEST, "ü": FaultKind.UNLISTED}
    (tree / NAME).write_bytes(b"".join(lines) + format_line(b"a0", "0" * 64))
    assert "twice" in " ".join(fault.problem for fault in verify_manifest(tree))


@pytest.mark.parametrize("path", [b"plain", b"a\\b", b"a\nb", b"a\\nb", b"\\", b" x ", b"\xff"])
def test_lines_come_back(path: bytes) -> None:
    assert parse_line(format_line(path, "ab" * 32)) == (path, "ab" * 32)


@pytest.mark.parametrize(
    "line", [b"", b"x", b"ab  file", b"g" * 64 + b"  f", b"0" * 64 + b" f", b"0" * 64 + b"  a/../b"]
)
def test_what_is_no_line(line: bytes) -> None:
    assert parse_line(line) is None


REQUEST = MakeRequest(num_samples=8, num_classes=2, val_fraction=0.25, seed=3, num_workers=1)


def test_make_writes_one_and_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert make_dataset("imagenet", first, REQUEST).root == first
    second.mkdir()  # filled from inside instead of renamed
    make_dataset("imagenet", second, REQUEST)
    assert (first / NAME).read_bytes() == (second / NAME).read_bytes()
    assert len(listed(first)) == 8
    report = check_dataset("imagenet", first, decode=True)
    assert (report.ok, report.manifest, report.num_ignored) == (True, ManifestState.VERIFIED, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_no_data_set_without_its_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up with the last byte of the manifest: nothing is left."""

    def fail(path: bytes, sha256: str) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(manifest_module, "format_line", fail)
    with pytest.raises(DataError, match="No space") as caught:
        make_dataset("imagenet", tmp_path / "made", REQUEST)
    assert caught.value.what == f"{tmp_path / 'made' / NAME} cannot be written"
    assert list(tmp_path.iterdir()) == []


def test_a_generators_error_names_the_persons_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainmark.datasets.imagenet import make as imagenet_make

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(imagenet_make, "draw_all", fail)
    with pytest.raises(DataError) as caught:
        make_dataset("imagenet", tmp_path / "made", REQUEST)
    assert caught.value.what == f"{tmp_path / 'made'} cannot be written"
    assert list(tmp_path.iterdir()) == []


def test_training_sees_only_files_that_the_manifest_can_hold(tmp_path: Path) -> None:
    root = tmp_path / "data"
    make_dataset("imagenet", root, REQUEST)
    images = sorted((root / "train").rglob("*.JPEG"))
    (root / "train/.cache").mkdir()
    for copy in (root / "train/.cache/a.JPEG", images[0].parent / ".copy.JPEG"):
        copy.write_bytes(images[0].read_bytes())
    report = check_dataset("imagenet", root, decode=True)
    assert (report.ok, report.manifest) == (True, ManifestState.VERIFIED)
    folder = read_folder(root)
    assert folder.val is not None
    assert sorted(folder.train.paths + folder.val.paths) == sorted(map(os.fsdecode, listed(root)))


def check(*argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["data", "check", "imagenet", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command_writes_verifies_and_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "data"
    make_dataset("imagenet", root, REQUEST)
    made = (root / NAME).read_bytes()
    (root / NAME).unlink()
    code, _, err = check(str(root), capsys=capsys)
    assert (code, "--write-manifest" in err) == (0, True)
    code, _, err = check(str(root), "--write-manifest", capsys=capsys)
    assert (code, "written" in err, (root / NAME).read_bytes()) == (0, True, made)
    code, _, err = check(str(root), "--write-manifest", capsys=capsys)
    assert (code, "all files match manifest.sha256" in err) == (0, True)

    (root / "train" / "extra.txt").write_text("extra")
    code, out, err = check(str(root), "--write-manifest", capsys=capsys)
    assert (code, "train/extra.txt: not in manifest.sha256" in out, "was not changed" in err) == (2, True, True)
    assert (root / NAME).read_bytes() == made
    code, _, err = check(str(root), "--quick", capsys=capsys)
    assert (code, "checksums were not compared" in err) == (0, True)
    code, out, _ = check(str(root), "--json", capsys=capsys)
    document = json.loads(out)
    assert (code, document["manifest"], document["ok"]) == (2, "differs", False)
    assert document["faults"][0]["kind"] == "not_in_manifest"


def test_a_broken_file_is_told_once_with_all_that_is_wrong(tmp_path: Path) -> None:
    root = tmp_path / "data"
    make_dataset("imagenet", root, REQUEST)
    first, second = sorted((root / "train").rglob("*.JPEG"))[:2]
    first.write_bytes(b"")
    second.unlink()
    report = check_dataset("imagenet", root, decode=True)
    assert kinds(report.faults) == {
        str(first.relative_to(root)): FaultKind.EMPTY_FILE,
        str(second.relative_to(root)): FaultKind.LOST,
    }
    assert len(report.faults) == 2
    assert report.faults[0].problem.startswith("zero bytes; changed")


def test_a_note_on_a_file_that_changed_is_a_fault(tmp_path: Path, encode: Callable[..., bytes]) -> None:
    root = tmp_path / "data"
    make_dataset("imagenet", root, REQUEST)
    first, second = sorted((root / "train").rglob("*.JPEG"))[:2]
    first.write_bytes(encode("CMYK"))
    second.write_bytes(encode("RGB"))
    report = check_dataset("imagenet", root, decode=True)
    assert [(fault.kind, fault.usable) for fault in report.faults] == [
        (FaultKind.MODE, False),
        (FaultKind.CHANGED, False),
    ]
    assert "changed" in report.faults[0].problem
    assert not report.ok


def test_quick_and_write_manifest_contradict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", "imagenet", "x", "--quick", "--write-manifest"]) == 2
    assert "--write-manifest: not allowed with argument --quick" in capsys.readouterr().err
