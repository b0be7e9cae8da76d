"""`check --replay`: would the gate have raised a false alarm in the past?

Every batch of a store is judged against the batch before it, as if that had been the baseline then. Where both have the
same code, nothing changed but the machine's mood, so an alarm is false. Where the code differs, an alarm may be right:
it is counted apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainmark.analyse.accepted import Accepted
from trainmark.analyse.accepting import Refusal, accept
from trainmark.analyse.batches import Batch
from trainmark.analyse.gate_result import Finding, Status
from trainmark.analyse.gate_throughput import Case, judge_throughput
from trainmark.analyse.tolerance import Metric, ToleranceRule, tolerances_of
from trainmark.messages.message import Message


@dataclass(frozen=True, kw_only=True)
class Tally:
    judged: int = 0
    alarms: int = 0
    """Judged as a regression of the throughput."""
    inconclusive: int = 0

    @property
    def rate(self) -> float | None:
        return self.alarms / self.judged if self.judged else None

    @property
    def at_most(self) -> float | None:
        """Upper 95% limit of the rate: none in ten may still be one in four."""
        return upper_limit(self.alarms, self.judged) if self.judged else None


@dataclass(frozen=True, kw_only=True)
class CellReplay:
    name: str
    machine: str
    """Host, or hash."""
    num_batches: int
    num_unusable: int
    """Batches that could not be a baseline: failed, too noisy, implausible, a single run."""
    why_unusable: Message | None
    """Of the first of them."""
    same_code: Tally
    """Alarms here are false."""
    other_code: Tally
    """Alarms here may be right."""

    @property
    def num_judged(self) -> int:
        return self.same_code.judged + self.other_code.judged


def replay_cell(batches: Sequence[Batch], rules: Sequence[ToleranceRule]) -> CellReplay:
    """`batches`: of one cell and machine, in the order of time."""
    answers = [accept(batch) for batch in batches]
    usable = [(batch, cell) for batch, cell in zip(batches, answers, strict=True) if isinstance(cell, Accepted)]
    refusals = [answer for answer in answers if isinstance(answer, Refusal)]
    first = answers[0]
    tolerance = tolerances_of(first.name, rules)[Metric.THROUGHPUT]
    found: dict[bool, list[Finding]] = {True: [], False: []}
    for place in range(1, len(usable)):
        (before, cell), (batch, _) = usable[place - 1], usable[place]
        history = tuple(earlier for earlier, _ in usable[: place - 1])
        if tolerance is not None:
            # One at a time, as the check of its day did.
            case = Case(accepted=cell, batch=batch, history=history, tolerance=tolerance)
            is_same = before.identity.code is not None and before.identity.code == batch.identity.code
            found[is_same] += judge_throughput([case])
    return CellReplay(
        name=first.name,
        machine=batches[-1].identity.facts["machine"].get("host") or batches[-1].identity.machine or "unknown",
        num_batches=len(batches),
        num_unusable=len(refusals),
        why_unusable=refusals[0].why if refusals else None,
        same_code=_count(found[True]),
        other_code=_count(found[False]),
    )


def _count(findings: Iterable[Finding]) -> Tally:
    statuses = [finding.status for finding in findings]
    return Tally(
        judged=len(statuses),
        alarms=statuses.count(Status.REGRESSION),
        inconclusive=statuses.count(Status.INCONCLUSIVE),
    )


def upper_limit(hits: int, trials: int, *, confidence: float = 0.95) -> float:
    """The exact one-sided limit of Clopper and Pearson: the rate at which so few hits have a probability of 5%."""
    if hits >= trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        terms = (math.comb(trials, k) * middle**k * (1 - middle) ** (trials - k) for k in range(hits + 1))
        low, high = (middle, high) if math.fsum(terms) > 1 - confidence else (low, middle)
    return high
