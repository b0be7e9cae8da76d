"""Whether running the same thing once more can help: decided from how it ended and what it printed last. Pure."""

from __future__ import annotations

import re

from trainmark.launch.outcome import Ending
from trainmark.runfolder.records import Outcome

LAST_BYTES = 16384
"""How much of the end of output.log is worth reading."""

_CRASHES = re.compile(r"SIG(?:SEGV|BUS|ILL|FPE|ABRT|SYS|TRAP)\b")
"""Signals that a program brings on itself: it does so again. Others were sent by somebody."""
_CONNECTION = re.compile(
    r"address already in use|EADDRINUSE"
    r"|connection (?:refused|reset|closed by peer|timed out|aborted|was lost|to .{1,80} (?:closed|lost))"
    r"|lost connection|no route to host|network is (?:unreachable|down)|host is unreachable|broken pipe|socket timeout"
    r"|Dist(?:Network|Store|Backend)Error|Rendezvous(?:Timeout|Connection|Closed)Error"
    r"|nccl(?:Remote|System)Error|NCCL (?:error|WARN).{0,200}(?:unhandled system error|remote process|socket|timeout)"
    r"|watchdog caught collective operation timeout|gloo.{0,120}(?:timed? ?out|connect)",
    re.IGNORECASE,
)
_EXCEPTION = re.compile(r"^(?:\[?rank ?\d+\]?:? ?)?\s*((?:\w+\.)*\w*(?:Error|Exception|Exit)\b.*)$", re.MULTILINE)
_FOLLOWS = re.compile(r"ChildFailedError|SignalException|CalledProcessError")
"""What a launcher raises because a process of it failed: it says nothing of the cause."""


def why_retry(ending: Ending, last_output: str) -> str | None:
    """What may go better the next time; None where it would end the same way, or nobody can say.

    Out of memory, NaN, a time-out and an exception of the program's own come again. The user's Ctrl-C never gets here.
    """
    if ending.outcome is Outcome.HANG:
        return "a hang may not come again"
    if ending.outcome is Outcome.KILLED:
        crash = _CRASHES.search(ending.reason) or _CRASHES.search(last_output)
        return None if crash and not _CONNECTION.search(last_output) else "somebody ended it from outside"
    if ending.outcome is Outcome.FAILED and _is_connection(ending.reason, last_output):
        return "a connection was lost or could not be made"
    return None


def _is_connection(reason: str, last_output: str) -> bool:
    """Every exception that was printed is of a connection: when one rank fails, others lose theirs to it."""
    raised = [line for line in _EXCEPTION.findall(last_output) if not _FOLLOWS.search(line)]
    if raised:
        return all(_CONNECTION.search(line) for line in raised)
    return _CONNECTION.search(reason) is not None or _CONNECTION.search(last_output) is not None
