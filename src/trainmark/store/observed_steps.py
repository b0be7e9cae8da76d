"""Steps that the observer saw inside the processes of a command, each process in a file of its own, added up.

Steps of different processes with the same number belong together: their samples are added, and the first process has
the clock. A step beside an evaluation, a checkpoint or a restart of the data in any process is left out, because its
time includes that; but where this would leave less than half of the steps, it is how the script trains.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainmark.runfolder.files import Json, observed_files
from trainmark.runfolder.records import MAX_SECONDS, MIN_SECONDS, Kind, read_records
from trainmark.runfolder.values import as_float, as_int, as_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trainmark.store.rows import Floats

    Bools = NDArray[np.bool_]

_LEFT_OUT = (frozenset({"eval", "checkpoint", "restart"}), frozenset({"eval", "checkpoint"}), frozenset[str]())
"""What steps may be beside to be left out: the first of these that leaves enough steps."""
_MAX_COUNT = 1e15
_MOST_STEPS = 1 << 20
"""Of all processes together; those after them are not needed to know the speed."""
_MOST_NAMES = 8
_MOST_SIZES = 10_000


@dataclass(frozen=True, kw_only=True)
class Observed:
    """All processes of a command together; the columns have one number per step."""

    seconds: Floats
    samples: Floats
    """Of all processes; NaN where unknown."""
    tokens: Floats
    ends_s: Floats
    """When each step ended, as seconds since 1970."""
    wall_s: Floats
    """From the end of the step before, by the clock of the computer."""
    steps: Floats
    is_language: bool
    """Every step was next-token prediction, as far as its shapes say."""
    batch_size: int | None
    """What one process got in one batch most of the time."""
    pauses: dict[str, float] = field(default_factory=dict)
    """Seconds that the steps which are left out took longer than others, by what they were beside."""
    counts: tuple[int, ...] = ()
    """Steps of each process."""
    framework: str | None = None
    signal: str | None = None
    """What ends a step: `backward`, `optimizer`, or `batch` of a framework's own training loop."""
    num_skipped: int = 0
    """Steps without an update of the parameters, since a loss scaler found infinite gradients."""


def read_observed(folder: Path) -> Observed | None:
    """None if no step was observed."""
    paths = observed_files(folder)
    most = _MOST_STEPS // max(1, len(paths))  # the memory is for all of them together
    processes = [found for path in paths if (found := _read_process(path, most)).num_steps]
    strongest = max((_strength(found.signal) for found in processes), default=0)
    # What another process did without an optimizer is not the training.
    processes = [found for found in processes if _strength(found.signal) == strongest]
    return _add_up(processes) if processes else None


_SIGNALS = (None, "backward", "optimizer", "batch")
"""What ends a step, the weakest first, as in `trainmark.observe.step_counter`."""


def _strength(signal: str | None) -> int:
    return _SIGNALS.index(signal) if signal in _SIGNALS else 0


_COLUMNS = ("seconds", "unix_s", "samples", "tokens", "step")


class _Process:
    """The steps of one process as columns: a file may have millions of them."""

    def __init__(self) -> None:
        self.signal: str | None = None
        self.framework: str | None = None
        self.num_skipped = 0
        self.clear()

    def clear(self) -> None:
        self._columns = {name: array("d") for name in _COLUMNS}
        self.beside: dict[int, set[str]] = {}
        """By place; most steps are beside nothing."""
        self.sizes = Counter[int]()
        self.is_language: bool | None = None
        """Of every step whose batch is known; None if none is."""

    @property
    def num_steps(self) -> int:
        return len(self._columns["seconds"])

    def add(self, record: Json) -> None:
        names = record.get("beside")
        if isinstance(names, list) and names:
            self.beside[self.num_steps] = {str(name) for name in names[:_MOST_NAMES]}
        for name, column in self._columns.items():
            value = as_float(record.get(name))
            column.append(value if value is not None and 0 <= value <= _MAX_COUNT else np.nan)
        samples, batches = as_int(record.get("samples")), as_int(record.get("batches")) or 1
        if samples and samples % batches == 0 and (len(self.sizes) < _MOST_SIZES or samples // batches in self.sizes):
            self.sizes[samples // batches] += 1
        if "tokens" in record or "samples" in record:  # of the first steps the batch may be unknown
            self.is_language = record.get("language") is True and self.is_language is not False

    def column(self, name: str, num_steps: int) -> Floats:
        return np.frombuffer(self._columns[name], dtype=np.float64)[:num_steps]


def _read_process(path: Path, most_steps: int) -> _Process:
    """Only the steps by the strongest signal count: those by backward passes only where no optimizer stepped later."""
    found = _Process()
    signal = None
    for record in read_records(path):
        kind = record["kind"]
        if kind == Kind.RUN_START:
            signal = as_text(record.get("signal"))
            if _strength(signal) > _strength(found.signal):
                found.clear()
                found.signal, found.framework = signal, as_text(record.get("framework"))
        elif kind == Kind.STEP and signal == found.signal and found.num_steps < most_steps and _is_sound(record):
            found.add(record)
        elif kind == "skipped_steps":
            found.num_skipped += as_int(record.get("count")) or 0
    return found


def _is_sound(record: Json) -> bool:
    seconds, end_s = as_float(record.get("seconds")), as_float(record.get("unix_s"))
    return seconds is not None and MIN_SECONDS <= seconds <= MAX_SECONDS and end_s is not None


def _add_up(processes: Sequence[_Process]) -> Observed:
    counts = tuple(process.num_steps for process in processes)
    num_steps = min(counts)
    first = processes[0]
    all_beside = [set[str]()] * num_steps
    for process in processes:
        for place, names in process.beside.items():
            if place < num_steps:
                all_beside[place] = all_beside[place] | names
    seconds, ends = first.column("seconds", num_steps), first.column("unix_s", num_steps)
    kept = _choose_kept(all_beside)
    typical = float(np.median(seconds[kept])) if kept.any() else 0.0
    return Observed(
        seconds=seconds[kept],
        samples=np.sum([process.column("samples", num_steps) for process in processes], axis=0)[kept],
        tokens=np.sum([process.column("tokens", num_steps) for process in processes], axis=0)[kept],
        ends_s=ends[kept],
        wall_s=np.diff(ends, prepend=ends[0] - seconds[0])[kept],
        steps=first.column("step", num_steps)[kept],
        is_language=bool(first.is_language),
        batch_size=_usual_batch(first),
        pauses=_measure_pauses(all_beside, seconds, kept, typical),
        counts=counts,
        framework=first.framework,
        signal=first.signal,
        num_skipped=first.num_skipped,
    )


def _choose_kept(beside: Sequence[set[str]]) -> Bools:
    for names in _LEFT_OUT:
        kept = np.array([not (found & names) for found in beside])
        if 2 * kept.sum() >= len(kept):
            return kept
    return np.ones(len(beside), dtype=np.bool_)


def _measure_pauses(beside: Sequence[set[str]], seconds: Floats, kept: Bools, typical: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for names, step_s, is_kept in zip(beside, seconds, kept, strict=True):
        name = next((name for name in ("eval", "checkpoint") if name in names), None)
        if name is not None and not is_kept and step_s > typical:
            found[name] = found.get(name, 0.0) + float(step_s) - typical
    return found


def _usual_batch(process: _Process) -> int | None:
    """None if batches differ too much to name one."""
    if not process.sizes:
        return None
    (size, count) = process.sizes.most_common(1)[0]
    return size if 2 * count >= process.num_steps else None
