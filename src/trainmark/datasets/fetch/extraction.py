"""Files of a stranger's archive, written so that nothing can land or lead outside one folder.

Links are made last: while files are written there is none in the folder, so no path can pass through one. Names are
compared as the most forgiving file system would, and what is on disk is looked at again before each step: which names
are one and the same, only the file system knows.
"""

from __future__ import annotations

import os
import shutil
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from trainmark.datasets.report import printable
from trainmark.errors import DataError
from trainmark.units import format_bytes

_BLOCK_BYTES = 2**20
_LEADS_OUTSIDE = "a link that leads outside the folder"
_ENTRY_BYTES = 512  # what an entry costs at least, though it may be empty


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A bomb is small and becomes huge; photographs hardly shrink, and lists of labels by ten or twenty."""

    max_ratio: int = 200
    min_bytes: int = 2**27
    """Below this the ratio does not matter."""


class Extraction:
    """One archive into one empty folder."""

    def __init__(self, archive: Path, folder: Path, limits: Limits) -> None:
        self.archive, self.folder, self._limits = archive, folder, limits
        self.num_files = 0
        self._archive_bytes = archive.stat().st_size
        self._spent_bytes = 0
        self._links: dict[str, str] = {}

    @property
    def is_untouched(self) -> bool:
        """Nothing in the archive could be read as a member of it."""
        return self._spent_bytes == 0

    def add_folder(self, name: str) -> None:
        self.spend(_ENTRY_BYTES)
        self._make_folder(name, self.check_name(name))

    def add_file(self, name: str, num_bytes: int, source: IO[bytes]) -> None:
        self.spend(_ENTRY_BYTES)
        self.refuse_no_space(num_bytes)
        with os.fdopen(self._create(name), "wb") as file:
            while block := source.read(_BLOCK_BYTES):
                self.spend(len(block))
                file.write(block)
        self.num_files += 1

    def add_link(self, name: str, target: str) -> None:
        self.spend(_ENTRY_BYTES)
        if not target or "\0" in target:
            raise self.refuse(name, "a link to nothing")
        self._links["/".join(self.check_name(name))] = target

    def add_hard_link(self, name: str, target: str) -> None:
        """To a file that came before it."""
        self.spend(_ENTRY_BYTES)
        there = self.folder.joinpath(*self.check_name(target))
        if not there.is_file():
            raise self.refuse(name, f"a hard link to {printable(target)}, which is no file before it in the archive")
        path = self.folder.joinpath(*self.check_name(name))
        if path != there:
            os.close(self._create(name))  # refuses or replaces what is there
            path.unlink()
            path.hardlink_to(there)
        self.num_files += 1

    def finish(self) -> None:
        folded = {_fold(name) for name in self._links}
        for name, target in self._links.items():
            self._refuse_leading_outside(name, target, folded)
        for name, target in self._links.items():
            path = self.folder / name
            self._make_folder(name, name.split("/")[:-1])
            if os.path.lexists(path):
                raise self.refuse(name, "a link and something else under one name")
            path.symlink_to(target)
            self.num_files += 1
        for name in self._links:
            self._refuse_ending_outside(name)

    def spend(self, num_bytes: int) -> None:
        self._spent_bytes += num_bytes
        self.refuse_bomb(self._spent_bytes)

    def refuse_bomb(self, num_bytes: int) -> None:
        if num_bytes > self._limits.min_bytes and num_bytes > self._limits.max_ratio * self._archive_bytes:
            raise DataError(
                f"{self.archive} was not unpacked",
                why=f"its {format_bytes(self._archive_bytes)} become more than {self._limits.max_ratio} times as much, "
                "as in an archive that is made to fill a disk",
                hint="if you trust it, unpack it with tar or unzip",
            )

    def refuse_no_space(self, num_bytes: int) -> None:
        free = shutil.disk_usage(self.folder).free
        if num_bytes > free:
            raise DataError(
                f"{self.archive} was not unpacked",
                why=f"{format_bytes(num_bytes)} are needed and {format_bytes(free)} are free",
                hint="free some space, or unpack to another disk; the archive is kept",
            )

    def refuse(self, name: str, why: str) -> DataError:
        return DataError(
            f"{self.archive} was not unpacked",
            why=f"{printable(name)!r}: {why}",
            hint="the archive is broken or made to do harm; ask where you got it from",
        )

    def check_name(self, name: str) -> list[str]:
        """The folders on its way and itself, all below the folder."""
        if name.startswith("/"):
            raise self.refuse(name, "an absolute path")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in name:
            raise self.refuse(name, "a path that leads outside the folder")
        return parts

    def _make_folder(self, name: str, parts: list[str]) -> Path:
        """One by one, so that none is made, or found, behind a link."""
        path = self.folder
        for part in parts:
            path = path / part
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                path.mkdir()
                continue
            if stat.S_ISLNK(mode):
                raise self.refuse(name, "a path that leads through a link")
            if not stat.S_ISDIR(mode):
                raise self.refuse(name, "a file and a folder under one name")
        return path

    def _create(self, name: str) -> int:
        """Of two files with one name the later counts, as tar has it."""
        parts = self.check_name(name)
        if not parts:
            raise self.refuse(name, "a file without a name")
        path = self._make_folder(name, parts[:-1]) / parts[-1]
        if os.path.lexists(path):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise self.refuse(name, "a file and a folder under one name")
            path.unlink()
            self.num_files -= 1
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)

    def _refuse_leading_outside(self, name: str, target: str, links: set[str]) -> None:
        """Neither where it stands nor on its way may a link pass another: then its words alone say where it ends."""
        if target.startswith("/"):
            raise self.refuse(name, "a link to an absolute path")
        place = name.split("/")[:-1]
        passed = {"/".join(place[: number + 1]) for number in range(len(place))}
        words = [word for word in target.split("/") if word not in ("", ".")]
        for number, word in enumerate(words):
            if word != "..":
                place.append(word)
                passed |= {"/".join(place)} if number < len(words) - 1 else set()
            elif place:
                place.pop()
            else:
                raise self.refuse(name, _LEADS_OUTSIDE)
        if not links.isdisjoint(_fold(way) for way in passed):
            raise self.refuse(name, "a link that leads through another link")

    def _refuse_ending_outside(self, name: str) -> None:
        """The file system's own word, of a link that is there."""
        folder = os.path.realpath(self.folder)
        if os.path.commonpath([folder, os.path.realpath(self.folder / name)]) != folder:
            raise self.refuse(name, _LEADS_OUTSIDE)


def _fold(name: str) -> str:
    """Equal for names that some file system takes for one: whatever their case, and however accents are written."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
