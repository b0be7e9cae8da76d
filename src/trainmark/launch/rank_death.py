"""The line that says how a rank died, where its launcher does not. Standard library only.

Paddle's launcher looks once a second and names the lowest rank that is dead by then: after a SIGKILL often a survivor
that aborted because the other was gone.
"""

from __future__ import annotations

import os
import re
import sys

PATTERN = re.compile(
    r"trainmark: rank (?P<rank>\d{1,9}) \(pid (?P<pid>\d{1,9}) on (?P<host>\S{1,255})\)"
    r" (?P<first>was the first to end|ended): (?:signal (?P<signal>\d{1,3})|exit code (?P<code>\d{1,3}))"
)


def report_death(rank: int, pid: int, returncode: int, *, is_first: bool) -> None:
    """`returncode` as of subprocess: negative for a signal. In one write, since several processes share the output.

    `is_first`: known to have died before the other ranks of this machine.
    """
    ended = "was the first to end" if is_first else "ended"
    how = f"signal {-returncode}" if returncode < 0 else f"exit code {returncode}"
    sys.stderr.write(f"trainmark: rank {rank} (pid {pid} on {os.uname().nodename}) {ended}: {how}\n")
    sys.stderr.flush()
