"""AI-Rank's protocol alone: `- AI-Rank-log 1558631910.424 eval_accuracy:0.757, total_epoch_cnt:1` and its siblings.

Most logs have it between the lines of a framework, where every dialect reads it; this one is for a log that has nothing
else. It has no records: `avg_ips` is what the run states of itself.
"""

from __future__ import annotations

from trainmark.logs.dialect import Dialect
from trainmark.logs.shared import EVERYWHERE

DIALECT = Dialect(
    name="ai-rank",
    summary="AI-Rank's own lines without those of a framework: evaluations, times, the speed it states",
    framework=None,
    priority=-4,
    steps=EVERYWHERE,
)
