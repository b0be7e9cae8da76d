"""How XLA compiles a step, and where it keeps what it compiled."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import jax

from trainmark.cache_folder import compile_cache_folder

_LEAST_KEPT_S = 1.0
"""Programs that compile faster are not worth a file."""


def keep_compiled(device: str) -> None:
    """Before the first compilation. A folder that the user has chosen for JAX's cache is kept."""
    settings: Any = jax.config  # whose types lack the settings with a context manager
    if settings.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(_folder(device)))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_KEPT_S)


def _folder(device: str) -> Path:
    """Code for a CPU may use instructions that the next machine with the same home directory has not."""
    folder = compile_cache_folder(os.environ) / "jax"
    return folder / f"cpu-{platform.node()}" if device == "cpu" else folder
