"""Which runs would let `check` decide, and the command lines that started such runs before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainmark.analyse.batches import Batch
from trainmark.analyse.gate_result import CellResult, Finding, GateResult, Status
from trainmark.analyse.tolerance import Metric
from trainmark.controller.checking import Measured
from trainmark.messages import gate as messages
from trainmark.messages.message import Message

_FEWEST = 3
"""Two runs agree or differ by chance."""


@dataclass(frozen=True, kw_only=True)
class MoreRuns:
    asked: str
    """The command line of earlier runs of the cell, as typed."""
    repeat: int
    """How many it should measure: a check judges one sweep."""


def find_more_runs(result: GateResult, measured: Measured) -> Iterator[MoreRuns]:
    """One for each cell that is as bad as the worst, if more runs could decide it and their command is known."""
    for cell in result.with_status(result.status):
        batch = _find_batch(cell, measured)
        asked = None if batch is None else next((row.asked for row in reversed(batch.rows) if row.asked), None)
        if batch is None or asked is None:
            continue
        for finding in cell.findings:
            if finding.status is cell.status and _is_helped(finding):
                advice = finding.why.params.get("advice")
                repeat = advice.params.get("repeat") if isinstance(advice, Message) else None
                fewest = max(_FEWEST, len(batch.rows))
                yield MoreRuns(asked=asked, repeat=repeat or fewest)


def _find_batch(cell: CellResult, measured: Measured) -> Batch | None:
    """The one that was judged; else the newest of the same work, also of older code."""
    earlier = [batch for batches in measured.history.values() for batch in batches if batch.work == cell.work]
    found = [*earlier, *(batch for batch in measured.latest if batch.work == cell.work)]
    judged = [batch for batch in found if cell.run_ids and {row.id for row in batch.rows} == set(cell.run_ids)]
    return next(iter(judged or sorted(found, key=lambda batch: batch.rows[-1].started_unix_s or 0.0)[-1:]), None)


def _is_helped(finding: Finding) -> bool:
    """Not where the reason says that more runs would not decide, or where no run would record what is missing.

    Nor where the baseline has too few runs: it wants more of the code that was accepted, which may not be this one.
    """
    advice = finding.why.params.get("advice")
    if isinstance(advice, Message) and advice.code in (messages.less_noise.code, messages.more_baseline.code):
        return False
    if finding.why.code == messages.unfinished.code:  # it may still end well
        return False
    return finding.status is not Status.NOT_MEASURED or finding.metric in (None, Metric.THROUGHPUT)
