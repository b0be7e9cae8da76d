"""How long a run may be silent: by this the controller ends it, and the worker, a little earlier, dumps its stacks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NUM_RECENT = 200
"""Steps that the usual one is told from."""
_FEWEST_STEPS = 5
"""The first ones compile and choose kernels: they tell nothing about the others."""
_DUMP_AT = 0.8
_TRAINING_LEAST_S = 300.0


@dataclass(frozen=True, kw_only=True)
class Patience:
    least_s: float = 20.0
    """A training of days has more, see `of`: it outlives a file server that is away for a minute."""
    factor: float = 20.0
    """Times the usual step."""
    setup_s: float = 900.0
    """Before there is a usual step, between two signs of an evaluation, and in a checkpoint: compiling a large model
    may take minutes."""

    @classmethod
    def of(cls, run: Mapping[str, Any], *, least_s: float = 0.0, setup_s: float = 0.0) -> Patience:
        """From run.json, which controller and worker both read; `least_s` and `setup_s` where it does not say."""
        measure = run.get("measure")
        given = measure if isinstance(measure, dict) else {}
        cell = run.get("cell")
        usual_s = _TRAINING_LEAST_S if isinstance(cell, dict) and cell.get("epochs") else cls.least_s
        least = float(given.get("hang_least_s") or least_s or usual_s)
        factor = float(given.get("hang_factor") or cls.factor)
        return cls(least_s=least, factor=factor, setup_s=max(setup_s or cls.setup_s, least))

    def after(self, recent: Sequence[float]) -> float:
        """After steps that took these seconds, none of them an evaluation."""
        if len(recent) < _FEWEST_STEPS:
            return self.setup_s
        return patience_s(statistics.median(recent), least_s=self.least_s, factor=self.factor)


def patience_s(median_step_s: float, *, least_s: float, factor: float) -> float:
    return max(least_s, factor * median_step_s)


def dump_after_s(patience_s: float) -> float:
    """Stacks are on disk before the controller's patience ends."""
    return _DUMP_AT * patience_s
