"""Public files of weights by the part of their SHA-256 that their authors publish."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from trainmark.weights.reading import WeightsFile


@dataclass(frozen=True, kw_only=True)
class KnownFile:
    name: str
    what: str
    sha256_begin: str | None
    """None: its authors publish no hash."""
    source: str
    workloads: tuple[str, ...]


@cache
def known_files() -> tuple[KnownFile, ...]:
    raw = tomllib.loads((resources.files("trainmark.weights") / "known.toml").read_text(encoding="utf-8"))
    return tuple(
        KnownFile(
            name=row["name"],
            what=row["what"],
            sha256_begin=row.get("sha256_begin"),
            source=row["source"],
            workloads=tuple(row["workloads"]),
        )
        for row in raw["files"]
    )


def find_known(file: WeightsFile) -> str | None:
    """What is known about the file: by its hash if there is one, else that its name promises another."""
    for known in known_files():
        if known.sha256_begin is not None and file.sha256.startswith(known.sha256_begin):
            return f"{known.what}, as published: SHA-256 {known.sha256_begin}..."
    for known in known_files():
        if known.name == file.name and known.sha256_begin is not None:
            return f"not the public file of this name: its SHA-256 begins with {file.sha256[:8]}"
    return None
