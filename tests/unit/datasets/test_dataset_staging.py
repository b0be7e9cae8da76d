from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from trainmark.datasets.staging import staged_folder
from trainmark.errors import DataError


def fill(folder: Path) -> None:
    for split in ("train", "val"):
        (folder / split).mkdir()
        (folder / split / "file").write_text(split)


def test_nothing_is_seen_before_the_end(tmp_path: Path) -> None:
    root = tmp_path / "new" / "data"
    with staged_folder(root) as folder:
        fill(folder)
        assert not root.exists()
        assert folder.stat().st_dev == tmp_path.stat().st_dev
    assert sorted(path.name for path in root.iterdir()) == ["train", "val"]
    assert [path.name for path in root.parent.iterdir()] == ["data"]


def test_others_may_read_the_result(tmp_path: Path) -> None:
    with staged_folder(tmp_path / "data") as folder:
        fill(folder)
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "data").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_empty_folder_is_filled_in_place(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    before = root.stat().st_ino  # a mount point can only be filled, not replaced
    with staged_folder(root) as folder:
        fill(folder)
        assert not (root / "train").exists()
    assert sorted(path.name for path in root.iterdir()) == ["train", "val"]
    assert root.stat().st_ino == before


def test_link_to_an_empty_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with staged_folder(tmp_path / "link") as folder:
        fill(folder)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "train" / "file").exists()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_there_is_never_touched(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "data"
    precious = root / "thesis.txt" if kind == "folder" else root
    precious.parent.mkdir(exist_ok=True)
    precious.write_text("precious")
    with pytest.raises(DataError) as caught, staged_folder(root):
        pytest.fail("never comes here")
    assert caught.value.hint
    assert precious.read_text() == "precious"


def _fill_and_fail(root: Path, error: BaseException) -> None:
    with staged_folder(root) as folder:
        fill(folder)
        raise error


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), ValueError("else")])
def test_failure_leaves_what_was_before(tmp_path: Path, exists: bool, error: BaseException) -> None:
    root = tmp_path / "data" if exists else tmp_path / "new" / "data"
    if exists:
        root.mkdir()
    expected = DataError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        _fill_and_fail(root, error)
    assert list(tmp_path.rglob("*")) == ([root] if exists else [])


def test_error_of_the_system_gets_its_own_hint(tmp_path: Path) -> None:
    for number, word in ((errno.ENOSPC, "space"), (errno.EDQUOT, "quota"), (errno.EROFS, "read-only"), (5, "again")):
        with pytest.raises(DataError) as caught, staged_folder(tmp_path / "data"):
            raise OSError(number, os.strerror(number))
        assert word in caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere, whatever the permissions say")
def test_closed_parent(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DataError, match="cannot be written"), staged_folder(tmp_path / "data"):
            pytest.fail("never comes here")
    finally:
        tmp_path.chmod(0o700)


def test_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"), staged_folder(tmp_path / "file" / "data"):
        pytest.fail("never comes here")
