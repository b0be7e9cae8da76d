"""How a run ended, decided from what its worker said and how its processes went. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

from trainmark.records import OUTPUT_FILE, Outcome


@dataclass(frozen=True, kw_only=True)
class Ending:
    outcome: Outcome
    reason: str
    look_at: str
    """The file of the run folder that says more."""


def decide(*, run_end: dict[str, Any] | None, returncode: int, ended_by: Outcome | None, why: str) -> Ending:
    """`run_end` is rank 0's last record; `ended_by` is set where the supervisor itself ended the run."""
    if ended_by is not None:
        return Ending(outcome=ended_by, reason=why, look_at=OUTPUT_FILE)
    if run_end is not None:
        outcome = _parse(run_end.get("outcome"))
        if outcome is not Outcome.OK or returncode == 0:
            return Ending(outcome=outcome, reason=str(run_end.get("reason", "")), look_at="rank0.jsonl")
        why = f"all steps were done, but the process then ended with {describe_exit(returncode)}"
        return Ending(outcome=Outcome.FAILED, reason=why, look_at=OUTPUT_FILE)
    if returncode < 0:
        return Ending(outcome=Outcome.KILLED, reason=f"ended by {describe_exit(returncode)}", look_at=OUTPUT_FILE)
    reason = f"ended before the last step with {describe_exit(returncode)}"
    return Ending(outcome=Outcome.FAILED, reason=reason, look_at=OUTPUT_FILE)


def describe_exit(returncode: int) -> str:
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    if name == "SIGKILL":
        return "SIGKILL (by a person or by the kernel for lack of memory: see dmesg)"
    return name


def _parse(text: Any) -> Outcome:
    try:
        return Outcome(text)
    except ValueError:
        return Outcome.FAILED
