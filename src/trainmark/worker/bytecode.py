"""Keeps what Python compiles of a framework's sources, where nobody else does.

Some container images forbid Python to write that (`PYTHONDONTWRITEBYTECODE=1`) and hold none of it, and some
installations cannot be written to. Then every process compiles thousands of files: on the cores beside an H200 PyTorch
with its compiler was imported in 17.6 s, and in 6.5 s with the bytecode kept.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

from trainmark.compile_cache import own_cache_folder

_FORBID, _FOLDER = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"


def keep_bytecode(framework: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Before the framework is imported. Processes that this one starts keep it in the same folder."""
    if sys.pycache_prefix is not None or not _is_recompiled(framework):
        return
    folder = own_cache_folder(environment) / "bytecode"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return  # no home to write to: it starts as slowly as before
    sys.dont_write_bytecode = False
    sys.pycache_prefix = environment[_FOLDER] = str(folder)
    environment.pop(_FORBID, None)


def _is_recompiled(package: str) -> bool:
    """Whether no process has written its bytecode, and this one would not."""
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    if found is None or found.origin is None or not found.has_location:
        return False
    if Path(importlib.util.cache_from_source(found.origin)).exists():
        return False
    return sys.dont_write_bytecode or not os.access(Path(found.origin).parent, os.W_OK)
