"""`python -m trainmark.launch.end RUN`: ends the processes of a run on this machine and waits until none is left.

The controller starts it on every machine of a run that did not end well: the signal to its own ssh reaches those
processes late or never, and the next run must not find them there.
"""

from __future__ import annotations

import sys

from trainmark.launch.processes import PREEMPTION_S, end_tagged


def main(argv: list[str]) -> int:
    return 0 if end_tagged(argv[1], grace_s=PREEMPTION_S) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
