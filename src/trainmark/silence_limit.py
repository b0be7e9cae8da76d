"""How long a run may write no record before it counts as hanging.

After this time the controller ends the run; a little earlier the worker writes the stacks of its threads.
"""

from __future__ import annotations

import signal
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from trainmark.runfolder.document import MeasureRecord, RunDocument

STACKS_SIGNAL = signal.SIGRTMIN + 7
"""Asks a worker whose threads cannot run for the stack of its main thread. Schedulers use SIGUSR1 and SIGUSR2."""
NUM_RECENT = 200
"""How many of the latest steps give the usual step."""
_MIN_STEPS = 5
"""Fewer say nothing: the first ones compile and choose kernels."""
_DUMP_AT = 0.8
_TRAINING_LEAST_S = 300.0


@dataclass(frozen=True, kw_only=True)
class SilenceLimit:
    least_s: float = 20.0
    """A training has a longer one, see `of`: it survives a file server that does not answer for a minute."""
    factor: float = 20.0
    """Times the usual step."""
    setup_s: float = 900.0
    """Before there is a usual step, between two batches of an evaluation, and in a checkpoint: compiling a large model
    may take minutes."""

    @classmethod
    def of(cls, run: RunDocument | None, *, least_s: float = 0.0, setup_s: float = 0.0) -> SilenceLimit:
        """From run.json, which controller and worker both read; `least_s` and `setup_s` are used where it has none."""
        given = (run.measure if run is not None else None) or MeasureRecord()
        usual_s = _TRAINING_LEAST_S if run is not None and run.cell.epochs else cls.least_s
        least = given.hang_least_s or least_s or usual_s
        factor = given.hang_factor or cls.factor
        return cls(least_s=least, factor=factor, setup_s=max(setup_s or cls.setup_s, least))

    def after(self, recent: Sequence[float]) -> float:
        """In seconds, after steps that took `recent` seconds, none of them an evaluation."""
        if len(recent) < _MIN_STEPS:
            return self.setup_s
        return max(self.least_s, self.factor * statistics.median(recent))


def dump_after_s(limit_s: float) -> float:
    """Early enough that the stacks are on disk when the controller ends the run."""
    return _DUMP_AT * limit_s
