"""Names that no listing of a data set takes up, so that training and the manifest see the same files."""

from __future__ import annotations

from typing import AnyStr


def is_hidden(name: AnyStr) -> bool:
    """Caches, thumbnails and half-made copies that tools leave behind begin with a dot; no public set's files do."""
    return name.startswith("." if isinstance(name, str) else b".")
