"""Waiting for a condition in tests: it returns as soon as the condition holds and fails loudly if it never does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_until(condition: Callable[[], Found], *, seconds: float = 60.0, what: str) -> Found:
    """The first true value of `condition`; `what` names it in the failure."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"after {seconds:g} s still not so: {what}"
        time.sleep(0.02)
    return found
