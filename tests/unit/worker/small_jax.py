"""JAX for tests: compiled without optimisation, which takes half the time, and small networks."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
jax = pytest.importorskip("jax")

from trainmark.workloads import jax_resnet  # noqa: E402


def shrink_resnet(patch: pytest.MonkeyPatch) -> None:
    """A stem, one narrow block and the classifier: compiled in a second or two."""
    patch.setattr(jax_resnet, "NUM_BLOCKS", (1,))
    patch.setattr(jax_resnet, "WIDTHS", (8,))
