"""The record files of a run folder as columns of numbers and short lists."""

from __future__ import annotations

import itertools
import math
from array import array
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainmark.messages.commands import steps_left_out
from trainmark.runfolder.files import STEPS_FILE, Json, rank_file, rank_files, read_lines
from trainmark.runfolder.records import (
    MAX_SECONDS,
    Communication,
    Evaluation,
    Kind,
    Phase,
    RecordedWarning,
    decode_record,
    read_record_blocks,
)
from trainmark.runfolder.step_table import open_steps
from trainmark.runfolder.values import as_float
from trainmark.store.bounded import Thinned
from trainmark.store.imported_steps import read_table
from trainmark.store.machine_records import MachineRecords, join_energy, read_energy
from trainmark.store.rows import Steps
from trainmark.store.step_columns import StepColumns, read_columns

_PAUSES = ("eval", "checkpoint", "compile")
"""Phases between steps, whose time is not step time."""
_MOST_EVALS = 10_000
_MOST_PAUSES = 100_000
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
    return StepColumns(is_marked=False).to_steps(())


def read_ranks(folder: Path) -> tuple[RankRecords, list[Json]]:
    """The records of rank 0, and the warnings and energy counters of all ranks: a hot GPU slows all of them down."""
    machine = MachineRecords()
    found = read_rank(folder / rank_file(0), machine=machine)
    others = [path for path in rank_files(folder) if path.name != rank_file(0)]
    energy, readings = join_energy([machine, *map(read_energy, others)])
    steps = replace(found.steps, telemetry=machine.telemetry, energy_readings=readings)
    found = replace(found, steps=steps, energy=energy)
    warnings = [*found.warnings, *(warning for path in others for warning in _read_warnings(path))]
    if not others:
        return found, warnings
    return found, list({(warning["code"], warning["message"]): warning for warning in warnings}.values())


def _read_warnings(path: Path) -> list[Json]:
    """Without decoding the steps: a run may have hundreds of ranks."""
    decoded = (decode_record(line) for line in read_lines(path, containing=b'"warning"'))
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


def read_rank(
    path: Path, *, is_marked: bool = False, most_steps: int | None = None, machine: MachineRecords | None = None
) -> RankRecords:
    """`is_marked`: written by a script of the user, see `marked_steps`. `most_steps`: later ones are counted only.

    `machine` gets all records but the steps.
    """
    steps, others = StepColumns(is_marked=is_marked), _OtherRecords()
    num_left_out = 0
    first_step_unix_s: float | None = None
    last_step_unix_s: float | None = None
    first_kinds = (Kind.STEP, Kind.RUN_START) if is_marked else (Kind.STEP,)
    """A mark ends a step: the first starts the clock."""
    for block in read_record_blocks(path):
        if first_step_unix_s is None:
            stamps = (as_float(record.get("unix_s")) for record in block if record["kind"] in first_kinds)
            first_step_unix_s = next((stamp for stamp in stamps if stamp is not None), None)
        own = [record for record in block if record["kind"] == "step"]
        for record in [record for record in block if record["kind"] != "step"]:
            others.add(record)
            if machine is not None:
                machine.add(record)
        num_used = len(own) if most_steps is None else min(len(own), most_steps - steps.num_records)
        num_left_out += len(own) - num_used
        if num_used:
            steps.add(read_columns(own[:num_used]))
            last_step_unix_s = as_float(own[num_used - 1].get("unix_s"))
    return RankRecords(
        steps=steps.to_steps(others.paused),
        num_steps=steps.num_records,
        evals=tuple(others.evals.items),
        warnings=(*others.warnings, *warn_left_out(steps.num_records, num_left_out)),
        pauses=others.pauses,
        resumed_steps=tuple(others.resumed_steps),
        peak_memory_bytes=others.peak_memory_bytes,
        communication=others.communication.to_json() if others.communication is not None else None,
        has_end=others.has_end,
        first_step_unix_s=first_step_unix_s,
        stamped_s=_between(first_step_unix_s, last_step_unix_s),
    )


class _OtherRecords:
    """All but the steps."""

    def __init__(self) -> None:
        self.evals = Thinned[Json](_MOST_EVALS)
        self.warnings: list[Json] = []
        self.pauses: dict[str, float] = {}
        self.paused = array("d")
        self.resumed_steps: list[int] = []
        self.peak_memory_bytes: int | None = None
        self.communication: Communication | None = None
        self.has_end = False

    def add(self, record: Json) -> None:
        kind = record["kind"]
        if kind == Kind.EVAL:
            self.evals.add(Evaluation.from_json(record)._asdict())
        elif kind == Kind.WARNING and len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(RecordedWarning.from_json(record)._asdict())
        elif kind == Kind.COMMUNICATION:
            self.communication = Communication.from_json(record)
        elif kind == Kind.RUN_END:
            self.has_end = True
        elif kind == Kind.PHASE:
            self._add_phase(Phase.from_json(record), as_float(record.get("unix_s")))

    def _add_phase(self, phase: Phase, unix_s: float | None) -> None:
        self.peak_memory_bytes = phase.peak_memory_bytes or self.peak_memory_bytes
        seconds = phase.seconds
        if phase.name in _PAUSES and seconds is not None and 0 <= seconds <= MAX_SECONDS:
            self.pauses[phase.name] = self.pauses.get(phase.name, 0.0) + seconds
            begin_s = math.nan if unix_s is None else unix_s - seconds
            if len(self.paused) < 3 * _MOST_PAUSES:
                self.paused.extend((math.nan if phase.step is None else phase.step, begin_s, seconds))
        if phase.name == "resume" and phase.step is not None and len(self.resumed_steps) < _MOST_EVALS:
            self.resumed_steps.append(phase.step)


def warn_left_out(num_used: int, num_left_out: int) -> list[Json]:
    return [steps_left_out(used=num_used, left_out=num_left_out).to_json()] if num_left_out else []


def _between(begin: float | None, end: float | None) -> float | None:
    return end - begin if begin is not None and end is not None and end > begin else None
