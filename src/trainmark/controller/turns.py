"""Trainings that differ in one thing, prepared in processes of their own and measured in turns on one device.

A machine that drifts touches all of them alike, and what is compared is the ratio within a round.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trainmark.analyse.distributions import t_quantile
from trainmark.errors import RunError
from trainmark.spec.cell import Cell

_MODULE = "trainmark.worker.variant"
_BEGIN_VARIABLE = "TRAINMARK_BEGIN_UNIX_S"
_MAX_TAIL = 2000

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Variant:
    name: str
    cell: Cell
    without: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to this process's own."""
    program: tuple[str, ...] = ("-m", _MODULE)
    """Arguments of Python before the request. Another one must answer as that module does."""


class Prepared:
    """A variant whose first step is done. Its process waits for commands on a pipe and dies with this one."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `end`
        request = json.dumps({"cell": variant.cell.to_json(), "without": list(variant.without)})
        environment = {**os.environ, **variant.environment, _BEGIN_VARIABLE: str(time.time())}
        self._process = subprocess.Popen(
            [sys.executable, *variant.program, request],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment,
        )  # fmt: skip
        self.first: dict[str, Any] = {}
        self.rates: list[float] = []
        """Samples per second of each round."""
        self.peak_memory_bytes: int | None = None
        self._why_ended = ""

    def wait_for_first_step(self, limit_s: float | None = None) -> Prepared:
        """After `limit_s` seconds the process is killed, for compilers that never end."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], limit_s)[0]:
            self.kill()
            raise RunError(f"{self.variant.name}: no first step within {limit_s:.0f} s")
        self.first = self._answer()
        return self

    def measure(self, seconds: float) -> float:
        found = self._ask(f"measure {seconds}")
        steps, spent = (sum(column) for column in zip(*found["blocks"], strict=True))
        self.rates.append(steps * found["samples_per_step"] / spent)
        self.peak_memory_bytes = found["peak_memory_bytes"]
        return self.rates[-1]

    def load(self, seconds: float) -> float:
        """Samples per second of its feed, without training."""
        found = self._ask(f"load {seconds}")
        return float(found["samples"] / found["seconds"])

    def profile(self, path: str) -> dict[str, Any]:
        return self._ask(f"profile {path}")

    def end(self) -> None:
        """Again, or after a failure, does nothing."""
        if self._log.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate("end\n")
        self._log.close()

    def kill(self) -> None:
        """For an interrupt: `end` waits until the process has done what it does, which may be minutes of compiling."""
        if self._log.closed:
            return
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _ask(self, command: str) -> dict[str, Any]:
        if self._log.closed:
            raise RunError(f"{self.variant.name}: the process ended", why=self._why_ended)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):  # nothing, or what was written before a kill
            self._process.communicate()  # closes the pipes
            self._log.seek(0)
            self._why_ended = self._log.read()[-_MAX_TAIL:].strip() or "it printed nothing"
            self._log.close()
            raise RunError(f"{self.variant.name}: the process ended", why=self._why_ended)
        answer: dict[str, Any] = json.loads(line)
        return answer


def in_turns(items: Sequence[T], rounds: int) -> Iterator[T]:
    """Each once in every round. The order turns round from one round to the next."""
    for number in range(rounds):
        yield from items if number % 2 == 0 else reversed(items)


def measure_in_turns(prepared: Sequence[Prepared], *, rounds: int, seconds: float) -> None:
    for one in in_turns(prepared, rounds):
        one.measure(seconds)


@dataclass(frozen=True, kw_only=True)
class Spread:
    value: float
    low: float | None
    high: float | None
    """Ends of the 95% interval; None where there is one round, which has none."""

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def has_one(self) -> bool:
        """Whether a ratio may as well be 1: its interval contains that."""
        return self.interval is not None and self.interval[0] <= 1.0 <= self.interval[1]

    def to_text(self, digits: str = ".4g") -> str:
        ends = "one round" if self.interval is None else " to ".join(f"{end:{digits}}" for end in self.interval)
        return f"{self.value:{digits}} ({ends})"


def summarise(values: Sequence[float]) -> Spread:
    """The geometric mean of the rounds and the interval of Student's t on their logarithms."""
    logs = [math.log(value) for value in values]
    mean = statistics.fmean(logs)
    if len(logs) == 1:
        return Spread(value=math.exp(mean), low=None, high=None)
    half = t_quantile(0.05, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Spread(value=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half))


def ratio(one: Prepared, other: Prepared) -> Spread:
    """Of the rates of the same rounds."""
    return summarise([a / b for a, b in zip(one.rates, other.rates, strict=True)])
