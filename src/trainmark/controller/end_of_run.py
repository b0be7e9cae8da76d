"""The sentence with which a run ends: why it ended, and whether its result is as good as was asked for."""

from __future__ import annotations

from trainmark.analyse.analysis import estimate_run
from trainmark.messages.message import Message
from trainmark.messages.training import noisy_end, precise_enough, target_missed
from trainmark.store.rows import RunRow


def describe_end(reason: Message, row: RunRow, target_ci: float | None) -> Message:
    """`target_ci`: the relative half width at which a measurement stops; None if it ends by itself."""
    estimate = estimate_run(row)
    if estimate is None or reason.code == precise_enough.code:
        return reason
    half_width = estimate.relative_half_width
    if target_ci is not None and half_width is not None and half_width > target_ci and not estimate.is_too_noisy:
        return target_missed(reason=reason, target=100 * target_ci, half_width=100 * half_width)
    return noisy_end(reason=reason) if estimate.is_too_noisy else reason
