"""A dialect defined by the user in a TOML file: a literal, a regular expression with named groups, and the scope.

    name = "ours"
    anchor = "img/s"                       # a text that every record line contains
    record = 'it (?P<step>\\d+).*?(?P<rate>[\\d.]+) img/s'
    scope = "global"                       # or "device": what a rate refers to
    unit = "images"
    meaning = "window"                     # what the number is; see `Meaning`
    framework = "torch"

Groups: step, epoch, samples, loss, memory_mb, unix_s, unit, suffix (k or M), and at least one time or rate, whose name
tells its unit: seconds, ms, us, its (iterations per second), rate; mean, mean_ms, mean_its (since the start), total,
total_ms, clock (1:02:03). The expression may come from a stranger: nested repetitions are refused, lines are cut at
2000 bytes, and a search may take at most a second.
"""

from __future__ import annotations

import re
import signal
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from trainmark.errors import Fault, InputError, SpecError
from trainmark.logs.dialect import DURATIONS, Dialect, Groups, Meaning, Probe, read_eval, read_step

_KEYS = (
    "name", "anchor", "record", "scope", "unit", "framework", "meaning", "covers", "first_step", "eval", "eval_anchor",
    "metric",
)  # fmt: skip
_TIMES = {*DURATIONS, "clock"}
_GROUPS = {"step", "epoch", "samples", "loss", "memory_mb", "unix_s", "unit", "suffix", "value", *_TIMES}
_COVERS = {"interval": Meaning.WINDOW, "step": Meaning.STEP}
"""An older word for two of the meanings."""
_WRONG_UNIT = (
    (re.compile(r"\(\?P<(?P<group>seconds|mean|total)>[^()]{0,80}\)(?:\\s[*+?]?| \??)?(?P<text>ms|msec|us)\b"),
     "the number is in milliseconds or microseconds", "name the group after its unit: ms, us, mean_ms, total_ms"),
    (re.compile(r"\(\?P<(?P<group>rate)>[^()]{0,80}\)(?:\\s[*+?]?| \??)?(?P<text>(?:it|iter|step|batch)(?:s|es)?/s)"),
     "the number counts iterations, not samples", "name the group its, or add a group unit"),
    (re.compile(r"\(\?P<(?P<group>rate|its)>[^()]{0,80}\)(?:\\s[*+?]?| \??)?(?P<text>[kKM])(?: |\\s|[a-z]+/s)"),
     "the number has a suffix for thousands or millions", "add a group: (?P<suffix>[kM]?)"),
)  # fmt: skip
_MAX_LINE_BYTES = 2000
_MAX_PATTERN = 1000
_MAX_SECONDS = 1.0
_REPEATED_GROUP = re.compile(r"\((?:[^()\\]|\\.)*(?:[*+]|\{\d*,\})(?:[^()\\]|\\.)*\)(?:[*+]|\{\d*,\d*\})")
_CHAINED = re.compile(r"(?:\.[*+]\??){2}")


class _GuardedPattern:
    """Searches like a compiled pattern, but with a limit on line length and time."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern

    def search(self, line: bytes) -> re.Match[bytes] | None:
        if threading.current_thread() is not threading.main_thread():
            # Only the main thread can have a timer: limit the line further instead.
            return self._pattern.search(line[: _MAX_LINE_BYTES // 4])
        before = signal.signal(signal.SIGALRM, self._give_up)
        signal.setitimer(signal.ITIMER_REAL, _MAX_SECONDS)
        try:
            return self._pattern.search(line[:_MAX_LINE_BYTES])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _give_up(self, _: int, __: FrameType | None) -> None:
        raise InputError(
            "the pattern takes too long on a line",
            why=f"more than {_MAX_SECONDS:g} s for {_MAX_LINE_BYTES} bytes: its repetitions can match in many ways",
            hint="use fewer `.*`, or classes such as [0-9] in their place",
        )


def load_pattern(path: Path) -> Dialect:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        why = (error.strerror if isinstance(error, OSError) else None) or why
        raise InputError(f"cannot read the pattern {path}", why=why, hint="see docs/guides/import.md") from error
    faults = list(_faults(table))
    if faults:
        raise SpecError(f"invalid pattern file {path}", faults)
    return _build(table)


def _faults(table: dict[str, Any]) -> list[Fault]:
    found = [
        Fault(where=key, problem="unknown key", hint=f"known keys: {', '.join(_KEYS)}")
        for key in table
        if key not in _KEYS
    ]
    found += [
        Fault(where=key, problem="must be a string", hint=f'write {key} = "..."')
        for key in _KEYS
        if key != "first_step" and not isinstance(table.get(key, ""), str)
    ]
    found += [
        Fault(where=key, problem="missing", hint=f"add {key} = ...")
        for key in ("name", "anchor", "record")
        if not table.get(key)
    ]
    if table.get("scope", "global") not in ("global", "device"):
        found.append(Fault(where="scope", problem="must be global or device", hint='scope = "global"'))
    if table.get("covers", "interval") not in ("interval", "step"):
        found.append(Fault(where="covers", problem="must be interval or step", hint='covers = "interval"'))
    if "meaning" in table and table["meaning"] not in list(Meaning):
        meanings = ", ".join(Meaning)
        found.append(Fault(where="meaning", problem=f"must be one of {meanings}", hint='meaning = "window"'))
    if "meaning" in table and "covers" in table:
        found.append(Fault(where="covers", problem="cannot be combined with meaning", hint="remove covers"))
    if table.get("first_step", 1) not in (0, 1) or isinstance(table.get("first_step"), bool):
        found.append(Fault(where="first_step", problem="must be 0 or 1", hint="the number of the first step"))
    if "eval" in table and not table.get("eval_anchor"):
        found.append(Fault(where="eval_anchor", problem="missing", hint="add the literal of the evaluation lines"))
    for key, needed in (("record", _TIMES), ("eval", {"value"})):
        if isinstance(table.get(key), str):
            found += _faults_of_expression(key, table[key], needed)
    return found


def _faults_of_expression(key: str, text: str, needed: set[str]) -> list[Fault]:
    if len(text) > _MAX_PATTERN:
        return [Fault(where=key, problem=f"longer than {_MAX_PATTERN} characters", hint="shorten it")]
    if _REPEATED_GROUP.search(text) or _CHAINED.search(text):
        return [
            Fault(
                where=key,
                problem="repeats a repetition, which can take for ever on an odd line",
                hint="write (?:x)+ or x+ but not (x+)+, and not .*.*",
            )
        ]
    try:
        pattern = re.compile(text.encode())
    except (re.error, RecursionError, OverflowError) as error:
        return [Fault(where=key, problem=f"not a valid regular expression: {error}", hint="fix it")]
    wrong = [
        Fault(where=key, problem=f"{match['group']} is followed by {match['text']}: {problem}", hint=hint)
        for expression, problem, hint in _WRONG_UNIT
        if (match := expression.search(text))
    ]
    if wrong:
        return wrong
    names = set(pattern.groupindex)
    unknown = ", ".join(sorted(names - _GROUPS))
    found = [Fault(where=key, problem=f"unknown groups: {unknown}", hint=f"known groups: {', '.join(sorted(_GROUPS))}")]
    found = found if unknown else []
    if not names & needed:
        wanted = " or ".join(f"(?P<{name}>...)" for name in sorted(needed & {"rate", "seconds", "value"}))
        found.append(Fault(where=key, problem="captures no number", hint=f"add a named group: {wanted}"))
    return found


def _build(table: dict[str, Any]) -> Dialect:
    others: tuple[Probe, ...] = ()
    if "eval" in table:
        others = (_probe(table["eval_anchor"], table["eval"], read_eval(table.get("metric", "accuracy"))),)
    return Dialect(
        name=table["name"],
        summary="a pattern of the user's",
        framework=table.get("framework"),
        scope=table.get("scope", "global"),
        unit=table.get("unit", "samples"),
        meaning=Meaning(table["meaning"]) if "meaning" in table else _COVERS[table.get("covers", "interval")],
        first_step=0 if table.get("first_step", 1) == 0 else 1,
        steps=(_probe(table["anchor"], table["record"], read_step),),
        others=others,
        priority=100,  # an explicit pattern always counts
    )


def _probe(anchor: str, expression: str, read: Callable[[Groups], Any]) -> Probe:
    guarded: Any = _GuardedPattern(re.compile(expression.encode()))
    return Probe(anchor=anchor.encode(), patterns=(guarded,), read=read)
