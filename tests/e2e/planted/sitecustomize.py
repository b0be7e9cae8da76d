"""On the PYTHONPATH of a run: workers of JAX get a small network, and that of rank PLANTED_IN runs out of memory."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainmark.worker.training import TrainingEngine

STEPS_BEFORE = 30
"""With fewer steps the usual step is not known, and a silent rank is a hang only after 15 minutes."""


def shrink() -> None:
    """Compiled in a second or two."""
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    from trainmark.workloads import jax_resnet

    jax_resnet.NUM_BLOCKS, jax_resnet.WIDTHS = (1,), (8,)


def plant() -> None:
    from trainmark.worker.training import TrainingEngine

    num_steps = 0
    real = TrainingEngine.step

    def step(engine: TrainingEngine[Any]) -> None:
        nonlocal num_steps
        num_steps += 1
        if num_steps > STEPS_BEFORE:
            raise MemoryError("planted")
        real(engine)

    TrainingEngine.step = step  # type: ignore[method-assign]


if any(word.endswith("worker.main") for word in sys.orig_argv):
    if "SMALL_JAX" in os.environ:
        shrink()
    if os.environ.get("RANK") == os.environ.get("PLANTED_IN", ""):
        plant()
