"""The store that commit 7cd78e8 wrote, and what it printed from it: folders of today must mean the same."""

from __future__ import annotations

import tarfile
from pathlib import Path

FIXTURE = Path(__file__).parent / "fixtures" / "7cd78e8"
EXPECTED = FIXTURE / "expected"


def unpack(folder: Path) -> Path:
    """The store, unpacked into `folder`; the filter refuses anything but plain files and folders inside it."""
    with tarfile.open(FIXTURE / "runs.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "runs"
