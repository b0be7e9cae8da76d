"""How a run ended, from what its ranks and its launcher reported, and whether a retry can help. Pure."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainmark.launch import rank_death
from trainmark.launch.tracebacks import find_error
from trainmark.messages.commands import (
    command_exited,
    command_killed,
    command_out_of_memory,
    command_printed_bad_loss,
    command_rank_failed,
)
from trainmark.messages.endings import (
    died_after_last_step,
    ended_early,
    exit_code,
    failed_after_last_step,
    killed,
    named_signal,
    numbered_signal,
    process_left,
    processes_remained,
    sigkill,
)
from trainmark.messages.message import Message
from trainmark.messages.ranks import (
    launcher,
    name_rank,
    node_failed,
    rank_failed,
    rank_killed,
    rank_killed_by_kernel,
    rank_out_of_memory,
    rank_reason,
    rank_vanished,
)
from trainmark.runfolder.files import OUTPUT_FILE, Json, rank_file
from trainmark.runfolder.records import Kind, Outcome


@dataclass(frozen=True, kw_only=True)
class Ending:
    outcome: Outcome
    reason: Message
    look_at: str
    """The file of the run folder with more details."""


_BY_IMPORTANCE = (Outcome.NAN, Outcome.OUT_OF_MEMORY, Outcome.FAILED, Outcome.KILLED, Outcome.OK)
"""Which outcome counts if ranks differ, most important first: the other ranks usually ended because of it."""
_CAUSE = _BY_IMPORTANCE.index(Outcome.FAILED) - 0.5
"""Importance of a rank that the launcher saw die first: the others then fail with errors of their own."""


def decide(*, run_ends: Mapping[int, Json], returncode: int | None, ended_by: tuple[Outcome, Message] | None) -> Ending:
    """`run_ends` are the last records of the ranks; `ended_by`: how and why the supervisor ended the run itself."""
    if ended_by is not None and ended_by[0] in (Outcome.HANG, Outcome.TIMEOUT) and _is_all_ok(run_ends):
        reason = processes_remained(reason=Message.from_reason(run_ends[min(run_ends)]))
        return Ending(outcome=Outcome.OK, reason=reason, look_at=rank_file(min(run_ends)))
    has_failed = any(end.get("is_cause") and not end.get("is_inferred") for end in run_ends.values())
    if ended_by is not None and ended_by[0] is Outcome.HANG and has_failed:
        # The others waited for a rank that had recorded its failure and did not exit.
        return decide(run_ends=run_ends, returncode=1, ended_by=None)
    if ended_by is not None:
        outcome, reason = ended_by
        stuck = (end.get("look_at") for end in run_ends.values() if end.get("outcome") == outcome)
        return Ending(outcome=outcome, reason=reason, look_at=str(next(stuck, None) or OUTPUT_FILE))
    if returncode is None:
        return Ending(outcome=Outcome.HANG, reason=process_left(), look_at=OUTPUT_FILE)
    if run_ends:
        rank = min(run_ends, key=lambda rank: _importance(run_ends[rank], rank))
        outcome = _parse_outcome(run_ends[rank].get("outcome"))
        if outcome is not Outcome.OK or returncode == 0:
            look_at = str(run_ends[rank].get("look_at") or rank_file(rank))
            return Ending(outcome=outcome, reason=_reason_of(run_ends, rank, outcome), look_at=look_at)
        if _is_all_ok(run_ends):
            deaths = (end["afterwards"] for end in run_ends.values() if "afterwards" in end)
            reason = died_after_last_step(how=next(deaths, None) or describe_exit(returncode))
            return Ending(outcome=Outcome.OK, reason=reason, look_at=OUTPUT_FILE)
        reason = failed_after_last_step(how=describe_exit(returncode))
        return Ending(outcome=Outcome.FAILED, reason=reason, look_at=OUTPUT_FILE)
    if returncode < 0:
        return Ending(outcome=Outcome.KILLED, reason=killed(how=describe_exit(returncode)), look_at=OUTPUT_FILE)
    return Ending(outcome=Outcome.FAILED, reason=ended_early(how=describe_exit(returncode)), look_at=OUTPUT_FILE)


def _is_all_ok(run_ends: Mapping[int, Json]) -> bool:
    """Whether every rank itself reported success: a hang after that does not spoil a finished run."""
    return bool(run_ends) and all(end.get("outcome") == Outcome.OK and "unix_s" in end for end in run_ends.values())


def is_failure(end: Json) -> bool:
    """Whether a rank that ended like this leaves the others waiting for it."""
    return _parse_outcome(end.get("outcome")) in (Outcome.NAN, Outcome.OUT_OF_MEMORY, Outcome.FAILED)


def _importance(end: Json, rank: int) -> tuple[float, bool, float, int]:
    """The rank with the smallest key is reported: by outcome, then its own failure before a reaction, then by time."""
    gravity = _BY_IMPORTANCE.index(_parse_outcome(end.get("outcome")))
    at = end.get("unix_s")
    is_own = end.get("is_own", True) is not False
    when = at if isinstance(at, (int, float)) else math.inf
    return (min(gravity, _CAUSE) if end.get("is_cause") else gravity), not is_own, when, rank


def _reason_of(run_ends: Mapping[int, Json], rank: int, outcome: Outcome) -> Message:
    """With the number of the rank, unless the reason names it."""
    reason = Message.from_reason(run_ends[rank])
    is_named = outcome is Outcome.OK or len(run_ends) == 1 or run_ends[rank].get("is_inferred")
    return reason if is_named else rank_reason(rank=rank, reason=reason)


_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|ResourceExhaustedError|MemoryError|CUBLAS_STATUS_ALLOC_FAILED"
    r"|can't allocate memory|Cannot allocate memory|std::bad_alloc",
    re.IGNORECASE,
)


def speaks_of_memory(output: str) -> bool:
    return _OUT_OF_MEMORY.search(output) is not None


_LOSS = re.compile(rb"loss[\"'\])]?[ \t:=|]{1,6}([-+]?(?:nan|inf(?:inity)?|\d))", re.IGNORECASE)


def judge_command(
    *,
    returncode: int | None,
    last_output: bytes,
    bad_loss: Message | None,
    bad_mark: Message | None = None,
    was_oom_killed: bool = False,
) -> Json:
    """How a command of the user ended, as the `run_end` that our worker would have written."""
    losses = _LOSS.findall(last_output)
    if losses and not losses[-1][-1:].isdigit():
        bad_loss = command_printed_bad_loss(loss=losses[-1].decode())
    outcome, reason = Outcome.OK, command_exited(exit_code=0, last_line=None)
    if returncode is not None and returncode < 0:
        outcome, reason = Outcome.KILLED, command_killed(how=describe_exit(returncode))
        if returncode == -signal.SIGKILL and was_oom_killed:
            outcome, reason = Outcome.OUT_OF_MEMORY, command_out_of_memory()
    elif returncode:
        text = last_output.decode("utf-8", errors="replace")
        outcome = Outcome.OUT_OF_MEMORY if speaks_of_memory(text) else Outcome.FAILED
        reason = _explain_failure(text, returncode)
    elif bad_mark is not None:
        outcome, reason = Outcome.FAILED, bad_mark
    elif bad_loss is not None:
        outcome, reason = Outcome.NAN, bad_loss
    return {"kind": Kind.RUN_END, "outcome": outcome, **reason.to_reason(), "look_at": OUTPUT_FILE}


def _explain_failure(output: str, returncode: int) -> Message:
    """By the error of the rank that failed first: the last lines are often the summary of a launcher."""
    death = next(iter(find_deaths(output)), None)
    first_to_die = death.rank if death is not None else None
    error = find_error(output, first_to_die=first_to_die, is_reaction=lambda text: bool(_CONNECTION.search(text)))
    rank = error.rank if error is not None and error.rank is not None else first_to_die
    if error is not None and rank is not None:
        return command_rank_failed(exit_code=returncode, rank=rank, error=error.text[:_MAX_REASON])
    if error is None and death is not None:
        return (rank_killed if death.code < 0 else rank_failed)(who=death.name, how=describe_exit(death.code))
    last_line = error.text if error is not None else _last_line(output)
    return command_exited(exit_code=returncode, last_line=last_line[:_MAX_REASON])


_MAX_REASON = 300
_STYLE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_MIN_READABLE = 0.8
"""Share of readable characters in a line of text: high enough to exclude binary data."""
_MIN_TEXT = 4
"""Shorter runs of readable characters occur in binary data by chance."""


def _last_line(text: str) -> str:
    """The last readable line; if there is none, the readable parts of the last line."""
    lines = [line for part in re.split(r"[\r\n]", _STYLE.sub("", text)) if (line := part.strip())]
    for line in reversed(lines):
        readable = "".join(char for char in line if _is_readable(char))
        if len(readable) >= _MIN_READABLE * len(line):
            return readable.strip()
    parts = "".join(char if _is_readable(char) else "\0" for char in lines[-1]).split("\0") if lines else []
    return " ".join(part.strip() for part in parts if len(part.strip()) >= _MIN_TEXT)


def _is_readable(char: str) -> bool:
    return char == "\t" or (char.isprintable() and char != "\ufffd")


def describe_exit(returncode: int) -> Message:
    if returncode >= 0:
        return exit_code(exit_code=returncode)
    if returncode == -signal.SIGKILL:
        return sigkill()
    try:
        return named_signal(name=signal.Signals(-returncode).name)
    except ValueError:
        return numbered_signal(number=-returncode)


def _parse_outcome(text: Any) -> Outcome:
    try:
        outcome = Outcome(text)
    except ValueError:
        return Outcome.FAILED
    return outcome if outcome in _BY_IMPORTANCE else Outcome.FAILED


_ENTRY_OF_TORCHRUN = (
    r"\[\d+\]:"
    r"(?:\s*host +: (?P<host>\S+)|\s*time +: \S+){0,2}"
    r"\s*rank +: (?P<rank>\d+) \(local_rank: \d+\)"
    r"\s*exitcode +: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)"
)
_TORCHRUN = re.compile(rf"Root Cause \(first observed failure\):\s*{_ENTRY_OF_TORCHRUN}")
_OTHERS_OF_TORCHRUN = re.compile(rf"^{_ENTRY_OF_TORCHRUN}", re.MULTILINE)
_MPIRUN = re.compile(
    r"noticed that process rank (?P<rank>\d+) with PID (?P<pid>\d+)"
    r" on node (?P<host>\S+) exited on signal (?P<signal>\d+)"
)
_SRUN = re.compile(
    r"srun: error: (?P<host>\S+): tasks? (?P<rank>\d+)[\d,-]*: "
    r"(?:(?P<word>Killed|Terminated|Aborted|Segmentation fault)|Exited with exit code (?P<code>\d+))"
)
_PADDLE = re.compile(r"Container rank (?P<rank>\d{1,9}) status failed cmd \[.*\] code (?P<code>-?\d{1,3}) log ")
"""The number is that within the node."""
_NODE_FAILURE = re.compile(r"srun: error: Node failure on (?P<host>\S{1,255})")
_WORDS = {"Killed": 9, "Terminated": 15, "Aborted": 6, "Segmentation fault": 11}


@dataclass(frozen=True, kw_only=True)
class Death:
    rank: int
    code: int
    """Negative: the number of the signal."""
    pid: int | None = None
    host: str | None = None
    is_first: bool = True
    """Whether it is known to have died before the other ranks that this launcher watches."""

    @property
    def is_cause(self) -> bool:
        """Nothing in a run sends SIGKILL before a rank has died; other ends may be a reaction to another rank's."""
        return self.is_first or self.code == -signal.SIGKILL

    @property
    def name(self) -> Message:
        return name_rank(rank=self.rank, pid=self.pid, host=self.host)


def find_deaths(output: str) -> list[Death]:
    """The first death that each launcher reported: later ones are its consequence. Those by SIGKILL come first."""
    found: dict[int, Death] = {}
    for death in _read_deaths(output):
        found.setdefault(death.rank, death)
    return sorted(found.values(), key=lambda death: death.code != -signal.SIGKILL)


def _read_deaths(output: str) -> Iterator[Death]:
    yield from map(_read_torchrun, _TORCHRUN.finditer(output))
    for match in _MPIRUN.finditer(output):
        yield Death(
            rank=int(match["rank"]), code=-int(match["signal"]), pid=int(match["pid"]) or None, host=match["host"]
        )
    for match in _SRUN.finditer(output):
        code = -_WORDS[match["word"]] if match["word"] else int(match["code"])
        yield Death(rank=int(match["rank"]), code=128 - code if 128 < code < 160 else code, host=match["host"])
    own = list(rank_death.PATTERN.finditer(output))
    for match in own:
        code = -int(match["signal"]) if match["signal"] else int(match["code"])
        is_first = match["first"] != "ended"
        yield Death(rank=int(match["rank"]), code=code, pid=int(match["pid"]), host=match["host"], is_first=is_first)
    for match in () if own else _PADDLE.finditer(output):
        yield Death(rank=int(match["rank"]), code=int(match["code"]), is_first=False)


def _find_killed_beside(output: str, ends: Mapping[int, Json]) -> list[Death]:
    """Ranks that torchrun found killed in the same look at them as its "root cause", the lowest rank of the dead.

    Only where that rank says that it lost a connection: torchrun itself kills ranks that outlive another one's failure.
    """
    found = [_read_torchrun(match) for match in _TORCHRUN.finditer(output)]
    if not found or not all(_CONNECTION.search(str(ends.get(death.rank, {}).get("reason"))) for death in found):
        return []
    others = [_read_torchrun(match) for match in _OTHERS_OF_TORCHRUN.finditer(output)]
    return [death for death in others if death.code == -signal.SIGKILL and death.rank not in ends]


def _read_torchrun(match: re.Match[str]) -> Death:
    return Death(rank=int(match["rank"]), code=int(match["code"]), pid=int(match["pid"]), host=match["host"])


def infer_ends(
    ends: Mapping[int, Json],
    *,
    started: Mapping[int, Message],
    has_launcher: bool,
    output: str,
    returncode: int | None,
    was_oom_killed: bool,
) -> dict[int, Json]:
    """The `run_end` of ranks that wrote none, and what happened to a rank after it wrote its own.

    `started`: names of ranks that started; `returncode`: the launcher's.
    """
    if not returncode:
        return {}
    silent = {rank: name for rank, name in started.items() if rank not in ends}
    inferred = {rank: _end(rank_vanished(who=name), Outcome.KILLED) for rank, name in silent.items()}
    deaths = [*_find_killed_beside(output, ends), *find_deaths(output)]
    for death in deaths:
        if death.rank not in ends:
            is_cause = death.is_cause and (death.code == -signal.SIGKILL or deaths[0].code != -signal.SIGKILL)
            end = _judge(death.name, death.code, output, was_oom_killed)
            inferred[death.rank] = {**end, "is_cause": True} if is_cause else end
        else:
            inferred[death.rank] = {**ends[death.rank], "afterwards": _describe_death(death.name, death.code)}
    failure = _NODE_FAILURE.search(output)
    if failure is not None and silent:
        inferred[min(silent)] = {**_end(node_failed(host=failure["host"]), Outcome.KILLED), "is_cause": True}
    if returncode < 0 and silent and not any("is_cause" in end for end in inferred.values()):
        first = min(silent)
        who = launcher() if has_launcher else silent[first]
        inferred[first] = {**_judge(who, returncode, output, was_oom_killed), "is_cause": True}
    return inferred


def _judge(who: Message, code: int, output: str, was_oom_killed: bool) -> Json:
    if code == -signal.SIGKILL and was_oom_killed:
        return _end(rank_killed_by_kernel(who=who), Outcome.OUT_OF_MEMORY)
    ended = _describe_death(who, code)
    if code != -signal.SIGKILL and speaks_of_memory(output):
        return _end(rank_out_of_memory(ended=ended), Outcome.OUT_OF_MEMORY)
    return _end(ended, Outcome.KILLED if code < 0 else Outcome.FAILED)


def _describe_death(who: Message, code: int) -> Message:
    return (rank_killed if code < 0 else rank_failed)(who=who, how=describe_exit(code))


def _end(reason: Message, outcome: Outcome) -> Json:
    """A `run_end` that the rank did not write itself; its reason names the rank."""
    end = {"kind": Kind.RUN_END, "outcome": outcome, **reason.to_reason(), "look_at": OUTPUT_FILE}
    return {**end, "is_inferred": True}


LAST_BYTES = 16384
"""How much of the end of output.log `why_retry` needs."""

_CRASHES = re.compile(r"SIG(?:SEGV|BUS|ILL|FPE|ABRT|SYS|TRAP)\b")
"""Signals of a crash, which would happen again. Others were sent from outside."""
_CONNECTION = re.compile(
    r"address already in use|EADDRINUSE"
    r"|connection (?:refused|reset|closed by peer|timed out|aborted|was lost|to .{1,80} (?:closed|lost))"
    r"|node failure|NODE_FAIL"
    r"|lost connection|no route to host|network is (?:unreachable|down)|host is unreachable|broken pipe|socket timeout"
    r"|Dist(?:Network|Store|Backend)Error|Rendezvous(?:Timeout|Connection|Closed)Error"
    r"|nccl(?:Remote|System)Error|NCCL (?:error|WARN).{0,200}(?:unhandled system error|remote process|socket|timeout)"
    r"|watchdog caught collective operation timeout|gloo.{0,120}(?:timed? ?out|connect)",
    re.IGNORECASE,
)
_EXCEPTION = re.compile(r"^(?:\[?rank ?\d+\]?:? ?)?\s*((?:\w+\.)*\w*(?:Error|Exception|Exit)\b.*)$", re.MULTILINE)
_FOLLOWS = re.compile(r"ChildFailedError|SignalException|CalledProcessError")
"""What a launcher raises because one of its processes failed: it does not name the cause."""


def why_retry(ending: Ending, last_output: str) -> str | None:
    """Why a retry may succeed; None if it would probably end the same way.

    Out of memory, NaN, the time limit and exceptions of the program would repeat. Ctrl-C never gets here.
    """
    if ending.outcome is Outcome.HANG:
        return "a hang may not repeat"
    if ending.outcome is Outcome.KILLED:
        crash = _CRASHES.search(ending.reason.english) or _CRASHES.search(last_output)
        return None if crash and not _CONNECTION.search(last_output) else "it was killed from outside"
    if ending.outcome is Outcome.FAILED and _is_connection(ending.reason.english, last_output):
        return "a connection was lost or refused"
    return None


def _is_connection(reason: str, last_output: str) -> bool:
    """Whether all printed exceptions are about connections: if one rank fails, the others lose theirs to it."""
    raised = [line for line in _EXCEPTION.findall(last_output) if not _FOLLOWS.search(line)]
    if raised:
        return all(_CONNECTION.search(line) for line in raised)
    return _CONNECTION.search(reason) is not None or _CONNECTION.search(last_output) is not None
