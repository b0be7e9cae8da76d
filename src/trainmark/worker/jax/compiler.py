"""How XLA compiles a step, and where it keeps what it compiled."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from jax._src import distributed

from trainmark.cache_folder import compile_cache_folder

_LEAST_KEPT_S = 1.0
"""Programs that compile faster are not worth a file."""


def keep_compiled(device: str) -> None:
    """Before the first compilation. A folder that the user has chosen for JAX's cache is kept."""
    settings: Any = jax.config  # whose types lack the settings with a context manager
    if settings.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(_folder(device)))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_KEPT_S)


@contextlib.contextmanager
def kept_by_every_process() -> Iterator[None]:
    """While a program is compiled: every process of a run keeps it.

    JAX leaves that to the first process, which is enough on GPUs. On a CPU the name of a kept program is another one in
    each process, so that all others would compile theirs again in every run.
    """
    state = distributed.global_state
    own = state.process_id
    if jax.default_backend() == "cpu":
        state.process_id = 0
    try:
        yield
    finally:
        state.process_id = own


def _folder(device: str) -> Path:
    """Code for a CPU may use instructions that the next machine with the same home directory has not."""
    folder = compile_cache_folder(os.environ) / "jax"
    return folder / f"cpu-{platform.node()}" if device == "cpu" else folder
