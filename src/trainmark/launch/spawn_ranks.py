"""`python -m trainmark.launch.spawn_ranks --nodes N --processes P -- CMD ...` runs CMD P times, each as a rank.

Each process has the rank variables of torchrun. They end together: if one fails, a line says which and how. The others
get SIGTERM, as on a request to stop, and SIGKILL a little later, since a process that waits for a dead one hangs.
Standard library only.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

from trainmark.launch.rank_death import report_death
from trainmark.parent_death import die_with, dying_with

_GRACE_S = 10.0
"""For the other processes once one has failed: they may be writing what they know about it."""
_POLL_S = 0.1


def main(argv: Sequence[str]) -> int:
    options = _parse(argv)
    die_with(os.getppid())
    children = [_start(options, local_rank) for local_rank in range(options.processes)]
    # Held back until `_wait_for_a_death` asks for it. Not earlier: the children would inherit this.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})

    def pass_on(number: int, _: FrameType | None) -> None:
        _signal(children, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, pass_on)
    return _wait(children, first_rank=options.node_rank * options.processes)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spawn_ranks", description="Run a command once for each rank.")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--processes", type=int, required=True, help="on this node")
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--master", help="ADDRESS:PORT; a free port of this machine if left out")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(argv)
    options.master = options.master or f"127.0.0.1:{_free_port()}"
    return options


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(options: argparse.Namespace, local_rank: int) -> subprocess.Popen[bytes]:
    address, port = options.master.rsplit(":", 1)
    ranks = {
        "RANK": options.node_rank * options.processes + local_rank,
        "WORLD_SIZE": options.nodes * options.processes,
        "LOCAL_RANK": local_rank,
        "LOCAL_WORLD_SIZE": options.processes,
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
    }
    environment = {**os.environ, **{name: str(value) for name, value in ranks.items()}}
    return subprocess.Popen(options.command, env=environment, preexec_fn=dying_with(os.getpid()))


def _wait(children: Sequence[subprocess.Popen[bytes]], *, first_rank: int) -> int:
    """The exit code of the process that failed first; 0 if all succeeded."""
    failed: int | None = None
    deadline = float("inf")
    while True:
        codes = [child.poll() for child in children]  # of all: one that lives must not hide one that is dead
        if failed is None and any(codes):
            failed = _find_cause(codes)
            is_first = len([code for code in codes if code]) == 1
            report_death(first_rank + failed, children[failed].pid, codes[failed] or 0, is_first=is_first)
            deadline = time.monotonic() + _GRACE_S
            _signal(children, signal.SIGTERM)
        if None not in codes:
            break
        if time.monotonic() > deadline:
            _signal(children, signal.SIGKILL)
        _wait_for_a_death()
    code = 0 if failed is None else children[failed].returncode
    return 128 - code if code < 0 else code


def _wait_for_a_death() -> None:
    """At most until the next look: another rank may die of this death within milliseconds."""
    if hasattr(signal, "sigtimedwait"):
        signal.sigtimedwait({signal.SIGCHLD}, _POLL_S)
    else:  # macOS
        time.sleep(_POLL_S)


def _find_cause(codes: Sequence[int | None]) -> int:
    """Of those that died since the last look: one that SIGKILL ended; the others may have died of its death."""
    dead = [index for index, code in enumerate(codes) if code]
    return next((index for index in dead if codes[index] == -signal.SIGKILL), dead[0])


def _signal(children: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    for child in children:
        if child.poll() is None:
            child.send_signal(number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
