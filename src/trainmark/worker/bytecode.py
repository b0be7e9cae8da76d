"""Keeps what Python compiles of a framework's sources, where nobody else does.

Some container images forbid Python to write that (`PYTHONDONTWRITEBYTECODE=1`) and hold none of it, and some
installations cannot be written to. Then every process compiles thousands of files: on the cores beside an H200 PyTorch
with its compiler was imported in 17.6 s, and in 6.5 s with the bytecode kept.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

from trainmark.cache_folder import own_cache_folder

_FORBID, _FOLDER = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"


def keep_bytecode(framework: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Before the framework is imported. Processes that this one starts keep it in the same folder."""
    if framework in sys.modules or sys.pycache_prefix is not None:
        return
    package = _find_recompiled(framework)
    if package is None:
        return
    try:
        folder = own_cache_folder(environment) / "bytecode" / _name_installation(package.parent)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_ours = folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK | os.X_OK)
    except (OSError, RuntimeError):  # RuntimeError: nobody has a home
        return
    if not is_ours:  # what another user left there would run here
        return
    sys.dont_write_bytecode = False
    sys.pycache_prefix = environment[_FOLDER] = str(folder)
    environment.pop(_FORBID, None)


def _find_recompiled(package: str) -> Path | None:
    """The package's folder, if every process has to compile it: it has no bytecode, and Python would write none."""
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if found is None or found.origin is None or not found.has_location:
        return None
    if Path(importlib.util.cache_from_source(found.origin)).exists():
        return None
    folder = Path(found.origin).parent
    return folder if sys.dont_write_bytecode or not os.access(folder, os.W_OK) else None


def _name_installation(site: Path) -> str:
    """Tells images apart that share a home and have their packages at the same path.

    Python knows a source again by its size and time alone, and some builders give all files of an image one time.
    """
    installed = sorted(entry.name for entry in os.scandir(site) if entry.name.endswith((".dist-info", ".egg-info")))
    return hashlib.sha256("\n".join([sys.version, str(site), *installed]).encode()).hexdigest()[:16]
