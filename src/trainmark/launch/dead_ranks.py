"""Ranks that ended without a word of their own, told from what the launcher printed of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainmark.launch.outcome import describe_exit, speaks_of_memory
from trainmark.runfolder.files import OUTPUT_FILE, Json
from trainmark.runfolder.records import Kind, Outcome

_TORCHRUN = re.compile(
    r"Root Cause \(first observed failure\):\s*\[\d+\]:"
    r"(?:\s*host +: (?P<host>\S+)|\s*time +: \S+){0,2}"
    r"\s*rank +: (?P<rank>\d+) \(local_rank: \d+\)"
    r"\s*exitcode +: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)"
)
_MPIRUN = re.compile(
    r"noticed that process rank (?P<rank>\d+) with PID (?P<pid>\d+)"
    r" on node (?P<host>\S+) exited on signal (?P<signal>\d+)"
)
_SRUN = re.compile(
    r"srun: error: (?P<host>\S+): tasks? (?P<rank>\d+)[\d,-]*: "
    r"(?:(?P<word>Killed|Terminated|Aborted|Segmentation fault)|Exited with exit code (?P<code>\d+))"
)
_WORDS = {"Killed": 9, "Terminated": 15, "Aborted": 6, "Segmentation fault": 11}


@dataclass(frozen=True, kw_only=True)
class Death:
    rank: int
    code: int
    """Below zero: the signal."""
    pid: int | None = None
    host: str | None = None

    def __str__(self) -> str:
        return name_rank(self.rank, pid=self.pid, host=self.host)


def name_rank(rank: int, *, pid: int | None, host: str | None) -> str:
    """rank 1 (pid 123 on gpu2), as far as it is known."""
    where = [f"pid {pid}" if pid else "", f"on {host}" if host else ""]
    known = " ".join(part for part in where if part)
    return f"rank {rank}" + (f" ({known})" if known else "")


def find_deaths(output: str) -> list[Death]:
    """The first death that each launcher of the run told: what died later did so because of it."""
    found: dict[int, Death] = {}
    for death in _read_deaths(output):
        found.setdefault(death.rank, death)
    return list(found.values())


def _read_deaths(output: str) -> Iterator[Death]:
    for match in _TORCHRUN.finditer(output):
        yield Death(rank=int(match["rank"]), code=int(match["code"]), pid=int(match["pid"]), host=match["host"])
    for match in _MPIRUN.finditer(output):
        yield Death(
            rank=int(match["rank"]), code=-int(match["signal"]), pid=int(match["pid"]) or None, host=match["host"]
        )
    for match in _SRUN.finditer(output):
        code = -_WORDS[match["word"]] if match["word"] else int(match["code"])
        yield Death(rank=int(match["rank"]), code=128 - code if 128 < code < 160 else code, host=match["host"])


def infer_ends(
    ends: Mapping[int, Json],
    *,
    started: Mapping[int, str],
    has_launcher: bool,
    output: str,
    returncode: int | None,
    was_oom_killed: bool,
) -> dict[int, Json]:
    """For ranks without a `run_end`. `started` names each rank that began; `returncode` is the launcher's, if any."""
    if not returncode:
        return {}
    silent = {rank: name for rank, name in started.items() if rank not in ends}
    inferred = {rank: _end(f"{name} ended without a word", Outcome.KILLED) for rank, name in silent.items()}
    for death in find_deaths(output):
        if death.rank not in ends:
            inferred[death.rank] = {**_judge(str(death), death.code, output, was_oom_killed), "is_cause": True}
    if returncode < 0 and silent and not any("is_cause" in end for end in inferred.values()):
        first = min(silent)
        who = "the launcher, which takes its ranks with it," if has_launcher else silent[first]
        inferred[first] = {**_judge(who, returncode, output, was_oom_killed), "is_cause": True}
    return inferred


def _judge(who: str, code: int, output: str, was_oom_killed: bool) -> Json:
    if code == -9 and was_oom_killed:
        why = "was ended by the kernel for lack of memory on the host (SIGKILL); use a smaller --batch-size"
        return _end(f"{who} {why}", Outcome.OUT_OF_MEMORY)
    how = f"was ended by {describe_exit(code)}" if code < 0 else f"ended with {describe_exit(code)}"
    if code != -9 and speaks_of_memory(output):
        return _end(f"{who} {how} when memory ran out; use a smaller --batch-size", Outcome.OUT_OF_MEMORY)
    return _end(f"{who} {how}", Outcome.KILLED if code < 0 else Outcome.FAILED)


def _end(reason: str, outcome: Outcome) -> Json:
    return {"kind": Kind.RUN_END, "outcome": outcome, "reason": reason, "look_at": OUTPUT_FILE}
