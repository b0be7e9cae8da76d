"""Where trainmark keeps what it could make again: compiled kernels, bytecode, measured peaks, the last answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


def own_cache_folder(environment: Mapping[str, str]) -> Path:
    """RuntimeError if nobody has a home."""
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "trainmark"


def compile_cache_folder(environment: Mapping[str, str]) -> Path:
    """PyTorch's own default is in /tmp, which a restart of the machine empties."""
    chosen = environment.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    return own_cache_folder(environment) / "compiled"


def count_bytes(folder: Path) -> int:
    """Of all files below; files that vanish meanwhile do not count."""
    total = 0
    for path in folder.rglob("*"):
        try:
            status = path.lstat()
        except OSError:
            continue
        total += status.st_size
    return total
