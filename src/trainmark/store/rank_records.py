"""The record files of a run folder as columns of numbers and short lists."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.messages.commands import steps_left_out
from trainmark.runfolder.files import STEPS_FILE, Json, rank_file, rank_files, read_lines
from trainmark.runfolder.records import (
    MAX_SECONDS,
    MIN_SECONDS,
    Communication,
    Evaluation,
    Kind,
    Phase,
    RecordedWarning,
    Step,
    decode_record,
    read_records,
)
from trainmark.runfolder.step_table import open_steps
from trainmark.runfolder.values import as_float
from trainmark.store.bounded import Thinned
from trainmark.store.imported_steps import read_table
from trainmark.store.machine_records import read_energy, read_telemetry
from trainmark.store.rows import Steps

_COLUMNS = ("seconds", "samples", "steps", "times", "loss_steps", "losses", "rounding", "printed_rates", "stamps",
    "paused")  # fmt: skip
_MAX_SAMPLES = 1e15
MOST_STEPS = 1 << 18
"""More than twice as many are joined in pairs, again and again: 300 MB are enough for a file of any size."""
_MOST_EVALS = 10_000
_MOST_WARNINGS = 1000


@dataclass(frozen=True, kw_only=True)
class RankRecords:
    steps: Steps
    num_steps: int = 0
    """Step records, also those without a speed."""
    evals: tuple[Json, ...] = ()
    warnings: tuple[Json, ...] = ()
    pauses: dict[str, float] = field(default_factory=dict)
    resumed_steps: tuple[int, ...] = ()
    peak_memory_bytes: int | None = None
    communication: Json | None = None
    energy: Json = field(default_factory=dict)
    """Which counters were read, and why others were not."""
    has_end: bool = False
    """Whether there is a run_end record."""
    first_step_unix_s: float | None = None
    """When the first step was done, by the clock of the process; None in logs, which say it in many ways or not."""
    stamped_s: float | None = None
    """Between the first step record and the last, by the time of day; None in logs."""


def no_steps() -> Steps:
    return Steps(**{name: np.empty(0) for name in _COLUMNS})


def read_ranks(folder: Path) -> tuple[RankRecords, list[Json]]:
    """The records of rank 0, and the warnings and energy counters of all ranks: a hot GPU slows all of them down."""
    found = _with_machine(read_rank(folder / rank_file(0)), folder)
    others = [path for path in rank_files(folder) if path.name != rank_file(0)]
    warnings = [*found.warnings, *(warning for path in others for warning in _read_warnings(path))]
    if not others:
        return found, warnings
    return found, list({(warning["code"], warning["message"]): warning for warning in warnings}.values())


def _with_machine(found: RankRecords, folder: Path) -> RankRecords:
    counters, readings = read_energy(folder)
    steps = replace(found.steps, telemetry=read_telemetry(folder), energy_readings=readings)
    return replace(found, steps=steps, energy=counters)


def _read_warnings(path: Path) -> list[Json]:
    """Without decoding the steps: a run may have hundreds of ranks."""
    decoded = (decode_record(line) for line in read_lines(path) if b'"warning"' in line)
    found = (record for record in decoded if record is not None and record["kind"] == Kind.WARNING)
    return [RecordedWarning.from_json(record)._asdict() for record in itertools.islice(found, _MOST_WARNINGS)]


def read_import(folder: Path) -> tuple[RankRecords, list[Json]]:
    """The records of an imported log; its steps are in a table, or in folders of older versions among the records."""
    found = read_rank(folder / rank_file(0))
    table = open_steps(folder / STEPS_FILE)
    if table is not None:
        steps, num_records = read_table(table)
        found = replace(found, steps=steps, num_steps=num_records)
    return found, list(found.warnings)


def read_rank(path: Path, *, is_marked: bool = False, most_steps: int | None = None) -> RankRecords:
    """`is_marked`: written by a script of the user, see `marked_steps`. `most_steps`: later ones are counted only."""
    steps = _StepColumns(choose=_as_marked if is_marked else _as_measured, can_group=not is_marked)
    evals = Thinned[Json](_MOST_EVALS)
    warnings: list[Json] = []
    pauses: dict[str, float] = {}
    resumed_steps: list[int] = []
    peak: int | None = None
    communication: Communication | None = None
    has_end = False
    num_left_out = 0
    first_step_unix_s: float | None = None
    last_step_unix_s: Any = None
    for record in read_records(path):
        kind = record["kind"]
        if first_step_unix_s is None and (kind == Kind.STEP or (is_marked and kind == Kind.RUN_START)):
            first_step_unix_s = as_float(record.get("unix_s"))  # a mark ends a step: the first starts the clock
        if kind == Kind.STEP:
            if steps.num_records == most_steps:
                num_left_out += 1
                continue
            steps.add(Step.from_json(record), as_float(record.get("unix_s")))
            last_step_unix_s = record.get("unix_s")
        elif kind == Kind.EVAL:
            evals.add(Evaluation.from_json(record)._asdict())
        elif kind == Kind.WARNING and len(warnings) < _MOST_WARNINGS:
            warnings.append(RecordedWarning.from_json(record)._asdict())
        elif kind == Kind.COMMUNICATION:
            communication = Communication.from_json(record)
        elif kind == Kind.RUN_END:
            has_end = True
        elif kind == Kind.PHASE:
            phase = Phase.from_json(record)
            peak = phase.peak_memory_bytes or peak
            seconds = phase.seconds
            if phase.name in ("eval", "checkpoint") and seconds is not None and 0 <= seconds <= MAX_SECONDS:
                pauses[phase.name] = pauses.get(phase.name, 0.0) + seconds
                steps.add_pause(phase, seconds, as_float(record.get("unix_s")))
            if phase.name == "resume" and phase.step is not None and len(resumed_steps) < _MOST_EVALS:
                resumed_steps.append(phase.step)
    return RankRecords(
        steps=steps.to_arrays(),
        num_steps=steps.num_records,
        evals=tuple(evals.items),
        warnings=(*warnings, *warn_left_out(steps.num_records, num_left_out)),
        pauses=pauses,
        resumed_steps=tuple(resumed_steps),
        peak_memory_bytes=peak,
        communication=communication.to_json() if communication is not None else None,
        has_end=has_end,
        first_step_unix_s=first_step_unix_s,
        stamped_s=_between(first_step_unix_s, as_float(last_step_unix_s)),
    )


def warn_left_out(num_used: int, num_left_out: int) -> list[Json]:
    return [steps_left_out(used=num_used, left_out=num_left_out).to_json()] if num_left_out else []


def _between(begin: float | None, end: float | None) -> float | None:
    return end - begin if begin is not None and end is not None and end > begin else None


class _StepColumns:
    """Columns of doubles, eight bytes a number: a run may have millions of records.

    Of very many, each row is the sum of a group of neighbouring steps, as in `imported_steps`.
    """

    def __init__(self, *, choose: Callable[[Step], tuple[float, float] | None], can_group: bool) -> None:
        self.num_records = 0
        self._choose, self._can_group = choose, can_group
        self._group = self._loss_every = 1
        self._num_pending = self._num_losses = 0
        """Steps that were added to the last row, which is not complete; and all losses."""
        self._columns = {name: array("d") for name in _COLUMNS}
        self._appends = tuple(column.append for column in self._columns.values())

    def add(self, step: Step, unix_s: float | None) -> None:
        self.num_records += 1
        number, _, _, time_s, loss, rounding_s = step
        pair = self._choose(step)
        seconds, samples, steps, times, loss_steps, losses, rounding, _, stamps, _ = self._appends
        if pair is not None and self._num_pending:
            self._add_to_last(step, pair, unix_s)
        elif pair is not None:
            if rounding_s is not None:
                rounding(rounding_s)
            seconds(pair[0])
            samples(pair[1])
            steps(math.nan if number is None else number)
            times(math.nan if time_s is None else time_s)
            stamps(math.nan if unix_s is None else unix_s)
            self._num_pending = 1 if self._group > 1 else 0
            if self._can_group and len(self._columns["seconds"]) > 2 * MOST_STEPS:
                self._join_pairs()
        if loss is not None:
            if self._num_losses % self._loss_every == 0:
                loss_steps(self.num_records if number is None else number)
                losses(loss)
            self._num_losses += 1
            if self._can_group and len(self._columns["losses"]) > 2 * MOST_STEPS:
                self._thin_losses()

    def _add_to_last(self, step: Step, pair: tuple[float, float], unix_s: float | None) -> None:
        last = {"steps": step.number, "times": step.time_s, "stamps": unix_s}
        sums = {"seconds": pair[0], "samples": pair[1]}
        if step.rounding_s is not None and self._columns["rounding"]:
            sums["rounding"] = step.rounding_s
        for name, value in sums.items():
            self._columns[name][-1] += value
        for name, place in last.items():
            self._columns[name][-1] = math.nan if place is None else place
        self._num_pending = (self._num_pending + 1) % self._group

    def _join_pairs(self) -> None:
        """The newest row is left out: it would be the half of a pair, and begins the next group."""
        for name in ("seconds", "samples", "steps", "times", "stamps", "rounding"):
            values, newest = self._columns[name][:-1], self._columns[name][-1:]
            pairs = np.frombuffer(values, dtype=np.float64)
            if len(values) % 2 == 0 and len(values):
                joined = pairs[0::2] + pairs[1::2] if name in ("seconds", "samples", "rounding") else pairs[1::2]
                del self._columns[name][:]
                self._columns[name].frombytes(joined.tobytes())
                self._columns[name].extend(newest)
        self._group *= 2
        self._num_pending = 1

    def _thin_losses(self) -> None:
        for name in ("loss_steps", "losses"):
            self._columns[name][:] = self._columns[name][::2]
        self._loss_every *= 2

    def add_pause(self, phase: Phase, seconds: float, unix_s: float | None) -> None:
        """Of its end record."""
        begin_s = math.nan if unix_s is None else unix_s - seconds
        self._columns["paused"].extend((math.nan if phase.step is None else phase.step, begin_s, seconds))

    def to_arrays(self) -> Steps:
        arrays = {name: np.frombuffer(column, dtype=np.float64) for name, column in self._columns.items() if column}
        if len(self._columns["rounding"]) != len(self._columns["seconds"]):
            arrays.pop("rounding", None)  # records of two versions, or a damaged one
        return Steps(**{name: arrays[name] if name in arrays else np.empty(0) for name in _COLUMNS})


def _as_measured(step: Step) -> tuple[float, float] | None:
    """Seconds and samples; None for values that cannot be a measurement."""
    seconds, samples = step.seconds, step.samples
    if seconds is None or samples is None:
        return None
    return (seconds, samples) if MIN_SECONDS <= seconds <= MAX_SECONDS and 0 < samples <= _MAX_SAMPLES else None


def _as_marked(step: Step) -> tuple[float, float]:
    """Every marked step keeps its place among those of other processes, with NaN for a value that is unusable."""
    seconds, samples = step.seconds, step.samples
    return (
        seconds if seconds is not None and MIN_SECONDS <= seconds <= MAX_SECONDS else math.nan,
        samples if samples is not None and 0 <= samples <= _MAX_SAMPLES else math.nan,
    )
