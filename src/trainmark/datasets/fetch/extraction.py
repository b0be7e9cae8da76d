"""Writes the members of an untrusted archive so that nothing is written, or points, outside one folder.

Links are created last: while files are written there are no links in the folder, so no path can pass through one. Names
are compared without case and accent form, as some file systems do, and the disk is checked again before each step,
because only the file system knows which names are the same.
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
_LEADS_OUTSIDE = "a link that points outside the folder"
_ENTRY_BYTES = 512  # minimum cost of an entry, even if it is empty


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits against archive bombs. Photographs hardly compress, and label files by a factor of 10 or 20."""

    max_ratio: int = 200
    min_bytes: int = 2**27
    """The ratio is not checked below this size."""


class Extraction:
    """Extracts one archive into one empty folder."""

    def __init__(self, archive: Path, folder: Path, limits: Limits) -> None:
        self.archive, self.folder, self._limits = archive, folder, limits
        self.num_files = 0
        self._archive_bytes = archive.stat().st_size
        self._spent_bytes = 0
        self._links: dict[str, str] = {}

    @property
    def is_untouched(self) -> bool:
        """No member was read yet."""
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
            raise self.refuse(name, "a link without a target")
        self._links["/".join(self.check_name(name))] = target

    def add_hard_link(self, name: str, target: str) -> None:
        """To an earlier file of the archive."""
        self.spend(_ENTRY_BYTES)
        there = self.folder.joinpath(*self.check_name(target))
        if not there.is_file():
            raise self.refuse(name, f"a hard link to {printable(target)}, which is not an earlier file of the archive")
        path = self.folder.joinpath(*self.check_name(name))
        if path != there:
            os.close(self._create(name))  # refuses or replaces an existing file
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
                raise self.refuse(name, "a link with the name of another member")
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
                why=f"its {format_bytes(self._archive_bytes)} grow more than {self._limits.max_ratio}-fold, "
                "like an archive made to fill a disk",
                hint="if you trust it, unpack it with tar or unzip",
            )

    def refuse_no_space(self, num_bytes: int) -> None:
        free = shutil.disk_usage(self.folder).free
        if num_bytes > free:
            raise DataError(
                f"{self.archive} was not unpacked",
                why=f"{format_bytes(num_bytes)} needed, {format_bytes(free)} free",
                hint="free some space, or unpack to another disk; the archive is kept",
            )

    def refuse(self, name: str, why: str) -> DataError:
        return DataError(
            f"{self.archive} was not unpacked",
            why=f"{printable(name)!r}: {why}",
            hint="the archive is damaged or malicious; ask its publisher",
        )

    def check_name(self, name: str) -> list[str]:
        """The components of a name, all below the folder."""
        if name.startswith("/"):
            raise self.refuse(name, "an absolute path")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in name:
            raise self.refuse(name, "a path that points outside the folder")
        return parts

    def _make_folder(self, name: str, parts: list[str]) -> Path:
        """Creates folders one by one, so that none is created or found behind a link."""
        path = self.folder
        for part in parts:
            path = path / part
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                path.mkdir()
                continue
            if stat.S_ISLNK(mode):
                raise self.refuse(name, "a path through a link")
            if not stat.S_ISDIR(mode):
                raise self.refuse(name, "a file and a folder with the same name")
        return path

    def _create(self, name: str) -> int:
        """A later file replaces an earlier one of the same name, as in tar."""
        parts = self.check_name(name)
        if not parts:
            raise self.refuse(name, "a file without a name")
        path = self._make_folder(name, parts[:-1]) / parts[-1]
        if os.path.lexists(path):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise self.refuse(name, "a file and a folder with the same name")
            path.unlink()
            self.num_files -= 1
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)

    def _refuse_leading_outside(self, name: str, target: str, links: set[str]) -> None:
        """No link may be in, or point through, another link: then its text alone tells where it ends."""
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
            raise self.refuse(name, "a link through another link")

    def _refuse_ending_outside(self, name: str) -> None:
        """Asks the file system where an existing link ends."""
        folder = os.path.realpath(self.folder)
        if os.path.commonpath([folder, os.path.realpath(self.folder / name)]) != folder:
            raise self.refuse(name, _LEADS_OUTSIDE)


def _fold(name: str) -> str:
    """Equal for names that some file system treats as the same: ignores case and the form of accents."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
