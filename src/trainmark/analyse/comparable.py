"""Which runs of a cell may be compared, and why the others may not."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from trainmark.analyse import laws
from trainmark.analyse.analysis import estimate_run
from trainmark.analyse.estimate import Estimate
from trainmark.analyse.repeats import pool
from trainmark.messages.comparison import (
    breaks_law,
    changed_run,
    far_from_others,
    incomplete_run,
    no_speed,
    not_ok,
    run_too_noisy,
)
from trainmark.messages.doubts import within_one_run
from trainmark.messages.endings import changed_after_end, no_end_record
from trainmark.messages.laws import far_repeat
from trainmark.messages.message import Message
from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    run_id: str
    side: str
    why: Message
    speed: float | None = None
    """None if it has none."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    values: tuple[float, ...]
    runs: tuple[RunRow, ...]
    left_out: tuple[LeftOut, ...] = field(default=())

    @property
    def estimate(self) -> Estimate | None:
        """Of all of them together, as tables show it."""
        estimates = [estimate for row in self.runs if (estimate := estimate_run(row)) is not None]
        return pool(estimates) if estimates else None

    @property
    def is_too_noisy(self) -> bool:
        """Whether the runs differ so much that no output shows their mean."""
        return self.estimate is not None and self.estimate.is_too_noisy

    @property
    def why_refused(self) -> Message | None:
        """Why no interval can be given, of a single run: several show how much they differ, whatever each did."""
        return self.estimate.doubts[0] if self.estimate is not None and self.estimate.is_refused else None

    @property
    def gap_of_far_repeat(self) -> float | None:
        """How far a run was from the others, as a fraction, that was left out only for being far; None if none was."""
        far = [left for left in self.left_out if left.why.params.get("law") == far_repeat.code and left.speed]
        return far[0].speed / fmean(self.values) - 1 if far and far[0].speed and self.values else None

    @property
    def doubts(self) -> tuple[Message, ...]:
        """What was found in the steps of the runs: the first of each kind."""
        found = [doubt for row in self.runs if (estimate := estimate_run(row)) is not None for doubt in estimate.doubts]
        first = {doubt.code: doubt for doubt in reversed(found) if doubt.code != within_one_run.code}
        return tuple(first.values())


def count_runs(runs: Sequence[RunRow], side: str) -> Counted:
    usable, left_out = [], []
    for row in runs:
        why = why_left_out(row)
        if why is None:
            usable.append(row)
        else:
            left_out.append(LeftOut(run_id=row.id, side=side, why=why, speed=speed_of(row)))
    values = tuple(value for row in usable if (value := speed_of(row)) is not None)
    return Counted(values=values, runs=tuple(usable), left_out=tuple(left_out))


def without(side: Counted, place: int | None, name: str) -> Counted:
    """Without a run that the verdict did not count."""
    if place is None:
        return side
    left = LeftOut(run_id=side.runs[place].id, side=name, why=far_from_others())
    return Counted(
        values=(*side.values[:place], *side.values[place + 1 :]),
        runs=(*side.runs[:place], *side.runs[place + 1 :]),
        left_out=(*side.left_out, left),
    )


def why_left_out(row: RunRow, *, ignored_laws: Collection[str] = ()) -> Message | None:
    """Why the speed of a run may not be compared; None if it may."""
    if row.outcome != "ok":
        return not_ok(outcome=row.outcome or "running")
    found = {warning.get("code") for warning in row.warnings}
    if changed_after_end.code in found:
        return changed_run()
    if no_end_record.code in found:
        return incomplete_run()
    broken = [law for law in laws.broken_laws(row) if law.code not in ignored_laws]
    if broken:
        return breaks_law(law=broken[0].code, why=broken[0])
    estimate = estimate_run(row)
    if estimate is None or speed_of(row) is None:
        return no_speed()
    if estimate.is_too_noisy:
        return run_too_noisy(width=estimate.relative_half_width or math.inf)
    return None


def speed_of(row: RunRow) -> float | None:
    """Samples per second; None for a value of which there is no logarithm."""
    estimate = estimate_run(row)
    is_speed = estimate is not None and math.isfinite(estimate.value) and estimate.value > 0
    return estimate.value if estimate is not None and is_speed else None
