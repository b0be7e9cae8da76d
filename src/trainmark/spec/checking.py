"""Reads a raw table (from TOML or the command line) value by value and collects every fault instead of raising one.

Suites, cluster files and commands are all checked with this. `docs/decisions/0010-own-spec-checker.md` has the reason.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from trainmark.errors import Fault

Table = Mapping[str, Any]
MAX_INTEGER = 2**31 - 1
MOST_RUNS = 10_000
"""Of one `[[cells]]` table or command: three days of runs of 30 s."""
_DEFAULT_HINT = "leave it out to use the default"


class Checker:
    """Each method returns a valid value, or None if the key is absent or its value was noted as a fault."""

    def __init__(self, raw: Table, where: str, faults: list[Fault], *, options: Collection[str] = ()) -> None:
        """`options` are the keys that were given on the command line: their faults are named `--key`."""
        self._raw, self._where, self._faults, self._options = raw, where, faults, options

    def fault(self, key: str, problem: str, hint: str = _DEFAULT_HINT) -> None:
        where = f"--{key.replace('_', '-')}" if key in self._options else f"{self._where}.{key}".lstrip(".")
        self._faults.append(Fault(where=where, problem=problem, hint=hint))

    def refuse_unknown(self, known: Sequence[str]) -> None:
        for key in self._raw:
            if key not in known:
                self.fault(key, "unknown key", suggest(key, known))

    def table(self, key: str) -> Table:
        value = self._raw.get(key, {})
        if isinstance(value, dict):
            return value
        self.fault(key, f"must be a table, got {value!r}", f"write [{key}] and its keys below")
        return {}

    # -- one value -----------------------------------------------------------------------------------------------------

    def choice(self, key: str, allowed: Sequence[str]) -> str | None:
        found: str | None = self._one(key, lambda value: self._check_choice(key, value, allowed))
        return found

    def word(self, key: str) -> str | None:
        found: str | None = self._one(
            key, lambda value: self._check(key, is_word(value), f"must be a text, got {value!r}")
        )
        return found

    def integer(self, key: str, *, least: int = 1) -> int | None:
        found: int | None = self._one(key, lambda value: self._check_integer(key, value, least))
        return found

    def number(
        self, key: str, *, least: float | None = None, below: float = math.inf, hint: str = _DEFAULT_HINT
    ) -> float | None:
        """At least `least`, or above 0 where that is None."""
        bounds = ("> 0" if least is None else f">= {least:g}") + (f" and < {below:g}" if below < math.inf else "")

        def check(value: Any) -> bool:
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            is_valid = is_number and (value > 0 if least is None else value >= least) and value < below
            return self._check(key, is_valid, f"must be a finite number {bounds}, got {value!r}", hint)

        found: float | None = self._one(key, check)
        return found

    # -- several values ------------------------------------------------------------------------------------------------

    def choices(
        self, key: str, allowed: Sequence[str] | None, *, elsewhere: Collection[str] = ()
    ) -> tuple[str, ...] | None:
        """`allowed` is None where nobody can say, because the workload is unknown too.

        `elsewhere` are words that are known, but not possible with this workload.
        """

        def check(value: Any) -> bool:
            if allowed is None:
                return isinstance(value, str)
            if isinstance(value, str) and value in elsewhere and value not in allowed:
                name = self._raw.get("workload")
                return self._check(key, False, f"{name} has no {value}", f"it has: {', '.join(allowed)}")
            return self._check_choice(key, value, allowed)

        return self.many(key, check)

    def integers(self, key: str) -> tuple[int, ...] | None:
        return self.many(key, lambda value: self._check_integer(key, value, 1))

    def refuse_many_runs(self, axes: Iterable[Any], repeat: int | None) -> None:
        """Before they are planned: a million runs would take minutes and gigabytes only to list them."""
        num_runs = math.prod(len(axis) for axis in axes if isinstance(axis, tuple)) * (repeat or 1)
        if num_runs > MOST_RUNS:
            problem = f"asks for {num_runs:,} runs, at most {MOST_RUNS:,} are possible"
            self.fault("repeat", problem, "use fewer repeats, or split it into several suites")

    def many(self, key: str, check: Callable[[Any], bool]) -> tuple[Any, ...] | None:
        """A single value counts as a list of one; duplicates are dropped."""
        value = self._raw.get(key)
        if value is None:
            return None
        values = value if isinstance(value, list) else [value]
        if not values:
            self.fault(key, "must not be empty")
        return tuple(dict.fromkeys(item for item in values if check(item))) or None

    def words(self, key: str, is_valid: Callable[[Any], bool], expected: str) -> tuple[str, ...] | None:
        """A list, in which the same word may occur twice."""
        value = self._raw.get(key)
        if value is None:
            return None
        if isinstance(value, list) and all(is_valid(item) for item in value):
            return tuple(value)
        self.fault(key, f"must be {expected}, got {value!r}")
        return None

    def texts(self, key: str, is_name: Callable[[str], object], example: str) -> dict[str, str] | None:
        """A table of names and texts; numbers are taken as texts."""
        value = self._raw.get(key)
        if value is None:
            return None
        if isinstance(value, dict):
            found = {name: str(text) for name, text in value.items() if isinstance(text, (str, int, float))}
            if len(found) == len(value) and all(is_name(name) and is_word(text) for name, text in found.items()):
                return found
        self.fault(key, f"must be a table of names and texts, got {value!r}", f"example: {key} = {example}")
        return None

    # ------------------------------------------------------------------------------------------------------------------

    def _one(self, key: str, check: Callable[[Any], bool]) -> Any:
        value = self._raw.get(key)
        return value if value is not None and check(value) else None

    def _check(self, key: str, is_valid: bool, problem: str, hint: str = _DEFAULT_HINT) -> bool:
        if not is_valid:
            self.fault(key, problem, hint)
        return is_valid

    def _check_choice(self, key: str, value: Any, allowed: Sequence[str]) -> bool:
        return self._check(key, value in allowed, f"unknown value {value!r}", suggest(value, allowed))

    def _check_integer(self, key: str, value: Any, least: int) -> bool:
        is_valid = isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_INTEGER
        bounds = f">= {least}" if not isinstance(value, int) or value <= MAX_INTEGER else f"<= {MAX_INTEGER}"
        return self._check(key, is_valid, f"must be an integer {bounds}, got {value!r}")


def is_word(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def suggest(value: Any, allowed: Sequence[str]) -> str:
    """The hint for a word that is not one of those allowed."""
    close = difflib.get_close_matches(str(value), allowed, n=1)
    known = ", ".join(allowed)
    return f"did you mean {close[0]}? known: {known}" if close else f"known: {known}"


def describe_faults(origin: str, faults: Sequence[Fault]) -> str:
    """The headline above a list of faults."""
    if all(fault.where.startswith("--") for fault in faults):
        return "invalid option" if len(faults) == 1 else "invalid options"
    return f"{origin} has {len(faults)} error{'' if len(faults) == 1 else 's'}"
