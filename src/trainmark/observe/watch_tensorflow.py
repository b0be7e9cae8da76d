"""TensorFlow itself is not watched: its graphs call no Python. `watch_keras` sees the batches of `fit`."""

from __future__ import annotations

from typing import Any


def install(tensorflow: Any, counter: Any, measure: Any) -> None:
    """Nothing to do: its import is noted by the caller, so that a run without steps can name it."""
