"""Steps that the observer saw inside the processes of a command, each process in a file of its own, added up.

Steps of different processes with the same number belong together: their samples are added, and the first process has
the clock. A step beside an evaluation, a checkpoint or a restart of the data in any process is left out, because its
time includes that; but where this would leave less than half of the steps, it is how the script trains.
"""

from __future__ import annotations

import itertools
import math
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
_MOST_STEPS = 1 << 17
"""Of all processes together; the speed of a longer command is that of these, and a warning says so."""
_USED = ("seconds", "unix_s", "samples", "tokens", "step", "beside", "language", "batches", "dispatched")
_MAX_AHEAD = 64
"""Batches that a loader fetches before they are used."""


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
    num_left_out: int = 0
    """Later steps of the first process, which are not read."""
    num_dispatched: int = 0
    """Steps of the first process with the time of their start: when the device was done is not known."""


def read_observed(folder: Path) -> Observed | None:
    """None if no step was observed."""
    paths = observed_files(folder)
    most = _MOST_STEPS // max(1, len(paths))  # the memory is for all of them together
    processes = [found for path in paths if (found := _read_process(path, most)).steps]
    strongest = max((_strength(found.signal) for found in processes), default=0)
    # What another process did without an optimizer is not the training.
    processes = [found for found in processes if _strength(found.signal) == strongest]
    return _add_up(processes) if processes else None


_SIGNALS = (None, "backward", "optimizer", "batch")
"""What ends a step, the weakest first, as in `trainmark.observe.step_counter`."""


def _strength(signal: str | None) -> int:
    return _SIGNALS.index(signal) if signal in _SIGNALS else 0


class _Process:
    def __init__(self) -> None:
        self.steps: list[Json] = []
        self.signal: str | None = None
        self.framework: str | None = None
        self.num_skipped = 0
        self.num_left_out = 0


def _read_process(path: Path, most_steps: int) -> _Process:
    """Only the steps by the strongest signal count: those by backward passes only where no optimizer stepped later."""
    found = _Process()
    signal = None
    for record in read_records(path):
        kind = record["kind"]
        if kind == Kind.RUN_START:
            signal = as_text(record.get("signal"))
            if _strength(signal) > _strength(found.signal):
                found.steps.clear()
                found.num_left_out = 0
                found.signal, found.framework = signal, as_text(record.get("framework"))
        elif kind == Kind.STEP and signal == found.signal and _is_sound(record):
            if len(found.steps) < most_steps:
                found.steps.append({name: record[name] for name in _USED if name in record})
            else:
                found.num_left_out += 1
        elif kind == "skipped_steps":
            found.num_skipped += as_int(record.get("count")) or 0
    found.steps = _return_fetched_ahead(found.steps)
    return found


def _return_fetched_ahead(steps: list[Json]) -> list[Json]:
    """A loader that fetches ahead has batches of later steps at the first step of an epoch, and none at the last.

    Batches are used in the order in which they were fetched, the usual number at each step.
    """
    counts = [_num_batches(step) for step in steps]
    starts = [place for place, names in enumerate(_beside(steps)) if "restart" in names]
    usual = int(np.median(counts)) if counts else 0
    ahead = int(np.median([counts[place] for place in starts])) - usual if starts else 0
    if usual < 1 or not 0 < ahead <= _MAX_AHEAD or sum(counts) > 8 * _MOST_STEPS:
        return steps
    made = list[Json]()
    for begin, end in itertools.pairwise([0, *(start for start in starts if start > 0), len(steps)]):
        made += _share_out(steps[begin:end], usual=usual, ahead=ahead)
    return made


def _share_out(steps: Sequence[Json], *, usual: int, ahead: int) -> Sequence[Json]:
    """The batches of one epoch; as they are if their number is not what fetching ahead explains."""
    fetched = [_of_one_batch(step) for step in steps for _ in range(_num_batches(step))]
    missing = usual * len(steps) - len(fetched)
    if missing == ahead and fetched:  # the first step of the process had them, which only starts the clock
        fetched = [fetched[0]] * ahead + fetched
    elif missing not in (0, -ahead):  # the end of the run may leave some that were fetched and not used
        return steps
    groups = [fetched[place * usual : (place + 1) * usual] for place in range(len(steps))]
    return [{**step, **_add_batches(group)} for step, group in zip(steps, groups, strict=True)]


def _num_batches(step: Json) -> int:
    return (as_int(step.get("batches")) or 1) if "samples" in step or "tokens" in step else 0


def _of_one_batch(step: Json) -> Json:
    counts = {name: as_float(step.get(name)) for name in ("samples", "tokens")}
    each: Json = {name: value / _num_batches(step) for name, value in counts.items() if value is not None}
    return {**each, "language": True} if step.get("language") is True else each


def _add_batches(group: Sequence[Json]) -> Json:
    known = {name for batch in group for name in batch if name != "language"}
    sums = {name: math.fsum(as_float(batch.get(name)) or 0.0 for batch in group) for name in known}
    whole: Json = {name: int(total) if total.is_integer() else total for name, total in sums.items()}
    return {**whole, "language": all("language" in batch for batch in group), "batches": len(group)}


def _is_sound(record: Json) -> bool:
    seconds, end_s = as_float(record.get("seconds")), as_float(record.get("unix_s"))
    return seconds is not None and MIN_SECONDS <= seconds <= MAX_SECONDS and end_s is not None


def _add_up(processes: Sequence[_Process]) -> Observed:
    counts = tuple(len(process.steps) for process in processes)
    num_steps = min(counts)
    first = processes[0]
    beside = [_beside(process.steps[:num_steps]) for process in processes]
    all_beside = [set[str]().union(*names) for names in zip(*beside, strict=True)]
    seconds, ends = _column(first, "seconds", num_steps), _column(first, "unix_s", num_steps)
    kept = _choose_kept(all_beside)
    typical = float(np.median(seconds[kept])) if kept.any() else 0.0
    return Observed(
        seconds=seconds[kept],
        samples=np.sum([_column(process, "samples", num_steps) for process in processes], axis=0)[kept],
        tokens=np.sum([_column(process, "tokens", num_steps) for process in processes], axis=0)[kept],
        ends_s=ends[kept],
        wall_s=np.diff(ends, prepend=ends[0] - seconds[0])[kept],
        steps=_column(first, "step", num_steps)[kept],
        is_language=_is_language(first.steps),
        batch_size=_usual_batch(first.steps),
        pauses=_measure_pauses(all_beside, seconds, kept, typical),
        counts=counts,
        framework=first.framework,
        signal=first.signal,
        num_skipped=first.num_skipped,
        num_left_out=first.num_left_out,
        num_dispatched=sum(step.get("dispatched") is True for step in first.steps[:num_steps]),
    )


def _column(process: _Process, name: str, num_steps: int) -> Floats:
    values = (as_float(record.get(name)) for record in process.steps[:num_steps])
    return np.array([value if value is not None and 0 <= value <= _MAX_COUNT else np.nan for value in values])


def _beside(records: Sequence[Json]) -> list[set[str]]:
    listed = (record.get("beside") for record in records)
    return [{str(name) for name in names} if isinstance(names, list) else set() for names in listed]


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


def _is_language(records: Sequence[Json]) -> bool:
    """Of the first steps the batch may be unknown."""
    known = [record for record in records if "tokens" in record or "samples" in record]
    return bool(known) and all(record.get("language") is True for record in known)


def _usual_batch(records: Sequence[Json]) -> int | None:
    """None if batches differ too much to name one."""
    sizes = Counter[int]()
    for record in records:
        samples, batches = as_int(record.get("samples")), as_int(record.get("batches")) or 1
        if samples and samples % batches == 0:
            sizes[samples // batches] += 1
    if not sizes:
        return None
    (size, count) = sizes.most_common(1)[0]
    return size if 2 * count >= len(records) else None
