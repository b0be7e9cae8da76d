"""When a measurement is precise enough to stop.

Looking often and stopping at the first interval that happens to be short selects intervals that are too short. Two
rules prevent that: `decide` looks only at step counts that grow geometrically (calling it more often changes nothing,
since it uses the steps up to the last such count), and it ignores intervals with few degrees of freedom.

A third rule is for what no interval knows: a stall that has not come yet, a clock that has not switched yet. A run
looks at 3,000 steps, or at half of its measuring time, before it may stop, and never stops while its estimate is
refused. docs/concepts/numbers.md has the simulated coverage at the time of stopping.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from trainmark.analyse.estimate import Estimate
from trainmark.analyse.throughput import estimate_throughput, read_series
from trainmark.messages.message import Message
from trainmark.messages.training import (
    first_steps,
    interval_too_wide,
    not_far_enough,
    precise_enough,
    step_limit,
    too_few_steps,
    too_little_freedom,
)

DEFAULT_TARGET = 0.01
DEFAULT_MIN_STEPS = 30
DEFAULT_MIN_DOF = 12.0

DEFAULT_FAR_STEPS = 3000
"""A stall that comes once in 1,000 steps, of ten times the usual length, moves the mean by 0.9%, which is about the
default target. In 3,000 steps it is seen in 95 of 100 runs."""

_LOOK_GROWTH = 1.5


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether to stop measuring."""

    stop: bool
    """True when the measurement may end."""

    reason: Message
    """Why."""

    estimate: Estimate | None
    """The estimate at the last look; None before the first."""


class StoppingRule:
    """Fed with steps as they arrive, says when to stop. It looks only at step counts that grow geometrically."""

    def __init__(
        self, *, target: float = DEFAULT_TARGET, min_seconds: float = 0.0, far_seconds: float = math.inf
    ) -> None:
        self._target, self._min_seconds, self._far_seconds = target, min_seconds, far_seconds
        self._seconds: list[float] = []
        self._samples: list[float] = []
        self._num_looked = 0
        self._estimate: Estimate | None = None

    @property
    def num_steps(self) -> int:
        return len(self._seconds)

    @property
    def estimate(self) -> Estimate | None:
        """At the last look; None before the first."""
        if self._estimate is None and self._num_looked:
            looked = slice(self._num_looked)
            self._estimate = estimate_throughput(self._seconds[looked], self._samples[looked])
        return self._estimate

    def add(self, seconds: Sequence[float], samples: Sequence[float]) -> Message | None:
        """The reason to stop now, or None."""
        self._seconds.extend(seconds)
        self._samples.extend(samples)
        if self.num_steps < next_look(self._num_looked):
            return None
        self._num_looked = last_look(self.num_steps)
        self._estimate = None
        total_s = math.fsum(self._seconds)
        if total_s < self._min_seconds or (self.num_steps < DEFAULT_FAR_STEPS and total_s < self._far_seconds):
            return None
        decision = decide(self._seconds, self._samples, target=self._target, far_seconds=self._far_seconds)
        self._estimate = decision.estimate
        return decision.reason if decision.stop else None


def decide(
    seconds: ArrayLike,
    samples: ArrayLike,
    *,
    target: float = DEFAULT_TARGET,
    min_steps: int = DEFAULT_MIN_STEPS,
    max_steps: int | None = None,
    min_dof: float = DEFAULT_MIN_DOF,
    far_steps: int = DEFAULT_FAR_STEPS,
    far_seconds: float = math.inf,
) -> Decision:
    """Stop when the relative half width is within `target`, or at `max_steps`.

    Not before `far_steps`, or `far_seconds` if that comes first: what is rare is not seen earlier.
    """
    durations, counts = read_series(seconds, samples)
    num_steps = len(durations)
    exhausted = max_steps is not None and num_steps >= max_steps
    num_looked = num_steps if exhausted else last_look(num_steps, min_steps=min_steps, far_steps=far_steps)
    if num_looked == 0:
        return Decision(stop=False, reason=first_steps(steps=num_steps, least=min_steps), estimate=None)
    estimate = estimate_throughput(durations[:num_looked], counts[:num_looked])
    reached, reason = _judge(estimate, target, min_steps, min_dof)
    if reached and num_looked < far_steps and float(durations[:num_looked].sum()) < far_seconds:
        reached, reason = False, not_far_enough(steps=num_looked, far=far_steps)
    if max_steps is not None and exhausted and not reached:
        reason = step_limit(steps=max_steps, why=reason)
    return Decision(stop=reached or exhausted, reason=reason, estimate=estimate)


def _judge(estimate: Estimate, target: float, min_steps: int, min_dof: float) -> tuple[bool, Message]:
    half_width, dof = estimate.relative_half_width, estimate.dof
    if estimate.is_refused:
        return False, estimate.doubts[0]
    if half_width is None or dof is None or estimate.num_steps < min_steps:
        return False, too_few_steps(steps=estimate.num_steps, least=min_steps)
    if half_width > target:
        return False, interval_too_wide(half_width=half_width, target=target)
    if dof < min_dof:
        return False, too_little_freedom(half_width=half_width, dof=dof, least=min_dof)
    return True, precise_enough(half_width=half_width, target=target)


def next_look(num_steps: int, *, min_steps: int = DEFAULT_MIN_STEPS, far_steps: int = DEFAULT_FAR_STEPS) -> int:
    """The smallest step count above `num_steps` at which `decide` looks."""
    return next(look for look in _looks(min_steps, far_steps) if look > num_steps)


def last_look(num_steps: int, *, min_steps: int = DEFAULT_MIN_STEPS, far_steps: int = DEFAULT_FAR_STEPS) -> int:
    """The largest step count up to `num_steps` at which `decide` looks; 0 if there is none."""
    looks = itertools.takewhile(lambda look: look <= num_steps, _looks(min_steps, far_steps))
    return max(looks, default=0)


def _looks(min_steps: int, far_steps: int) -> Iterator[int]:
    """Geometric, with `far_steps` among them: usually the first at which a run may stop."""
    look = max(1, min_steps)
    while True:
        yield look
        following = math.ceil(look * _LOOK_GROWTH)
        look = far_steps if look < far_steps < following else following
