"""`python -m trainmark.launch.rank_command CMD ...` runs CMD with the rank variables of torchrun, under any launcher.

`--launcher=NAME` before CMD names the launcher (paddle, mpi or slurm), so that the rank variables of an outer shell do
not count. Without it, those of all launchers are looked at.

Standard library only, so that it runs inside any container.

Where a signal of the controller does not reach the process (Slurm), the controller renews a lease: a file that it
writes again and again. This process then stays as the parent of CMD and ends it when the file no longer changes, so
that a dead controller leaves no processes behind. It also stays under Paddle's launcher, to print how CMD died: the
launcher itself may name a rank that died later.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from trainmark import rank_environment
from trainmark.launch.rank_death import report_death
from trainmark.parent_death import die_with, dying_with

LEASE = "TRAINMARK_LEASE"
"""The variable with the path of the lease."""
LEASE_S = 60.0
_POLL_S = 1.0
_LAUNCHER = "--launcher="


def main(argv: list[str]) -> int:
    is_named = argv[1].startswith(_LAUNCHER)
    launcher, command = (argv[1].removeprefix(_LAUNCHER), argv[2:]) if is_named else (None, argv[1:])
    die_with(os.getppid())
    found = rank_environment.translate(os.environ, launcher)
    if "SLURM_PROCID" in os.environ and "MASTER_ADDR" in found:
        found["MASTER_ADDR"] = _resolve(found["MASTER_ADDR"])
    environment = {**os.environ, **found}
    lease = environment.pop(LEASE, None)
    try:
        if lease is not None:
            return _run_under(Path(lease), command, environment)
        if launcher == "paddle":
            return _run_and_tell(command, environment)
        os.execvpe(command[0], command, environment)  # noqa: S606 - no shell is wanted
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127


def _resolve(node: str) -> str:
    """Slurm may use node names that no name server knows; then it knows their address."""
    try:
        socket.getaddrinfo(node, None)
    except OSError:
        argv = ["scontrol", "show", "node", node, "--oneliner"]
        try:
            told = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False).stdout
        except (OSError, subprocess.SubprocessError):
            return node
        address = re.search(r"\bNodeAddr=(\S+)", told)
        return address[1] if address else node
    return node


def _run_and_tell(command: list[str], environment: dict[str, str]) -> int:
    child = _start(command, environment)
    returncode = child.wait()
    if returncode:
        rank = rank_environment.read("RANK", environment, default=0)
        report_death(rank, child.pid, returncode, is_first=False)
    return returncode if returncode >= 0 else _end_alike(-returncode)


def _start(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Signals to this process are passed on to the command."""
    child = subprocess.Popen(command, env=environment, preexec_fn=dying_with(os.getpid()))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: child.send_signal(received))
    return child


def _run_under(lease: Path, command: list[str], environment: dict[str, str]) -> int:
    seen, since = _read(lease), time.monotonic()
    while _read(lease) == seen:  # a job that waited in a queue must not start if the controller is gone
        if time.monotonic() - since > LEASE_S:
            print(f"no sign of the controller for {LEASE_S:g} s: nothing is started", file=sys.stderr)
            return 1
        time.sleep(_POLL_S / 4)
    child = _start(command, environment)
    since = time.monotonic()
    while True:
        try:
            returncode = child.wait(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            begin = time.monotonic()
            now = _read(lease)
            is_stuck = (
                time.monotonic() - begin > _POLL_S
            )  # the file server did not answer, nor did it for the controller
            if now != seen or is_stuck:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > LEASE_S:
                print(f"no sign of the controller for {LEASE_S:g} s: ending the command", file=sys.stderr)
                child.kill()
            continue
        return returncode if returncode >= 0 else _end_alike(-returncode)


def _end_alike(number: int) -> int:
    """By the same signal, so that the launcher reports it."""
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def _read(lease: Path) -> bytes | None:
    """Opening the file makes a network file system refresh it; `stat` may not."""
    try:
        return lease.read_bytes()
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv))
