"""What is known about a command when it has ended: which witness its result rests on, and what the others say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.messages.commands import (
    dispatch_times,
    hook_not_loaded,
    no_framework,
    no_optimizer_step,
    not_observed,
    observer_failed,
    uneven_observed,
)
from trainmark.messages.message import Message
from trainmark.runfolder.document import CellRecord, LogFacts, RunDocument
from trainmark.runfolder.files import LOG_FILE, OBSERVER_FILE, Json, rank_files
from trainmark.runfolder.records import Kind, encode_record, read_records
from trainmark.runfolder.values import as_float, as_text

if TYPE_CHECKING:
    from trainmark.analyse.agreement import Witness
    from trainmark.logs.live import LiveLog
    from trainmark.store.observed_steps import Observed

_MAX_WHY = 3
_KNOWN_SHARE = 0.9


@dataclass(frozen=True, kw_only=True)
class _Choice:
    witness: str | None
    unit: str
    witnesses: Json
    warnings: tuple[Message, ...] = ()


def add_facts(folder: Path, log: LiveLog, *, is_observing: bool) -> None:
    """Adds them to run.json, where no option said them, and the warnings to log.jsonl."""
    from trainmark.store.observed_steps import read_observed

    document = RunDocument.read(folder)
    if document is None:
        return
    observed = read_observed(folder)
    choice = _choose(folder, log, observed)
    why = None if observed is not None or not is_observing else _why_not_observed(folder)
    is_marked = choice.witness == "mark"
    replace(
        document,
        cell=_complete(document.cell, log, observed),
        dialect="mark" if is_marked else log.dialect or ("observer" if choice.witness == "observer" else None),
        witness=choice.witness,
        witnesses=choice.witnesses,
        observer=_describe(observed, why) if is_observing else None,
        unit=choice.unit,
        log=LogFacts(stated=log.stated),
    ).write(folder)
    warnings = [*choice.warnings, *([not_observed(why=why)] if why is not None and not is_marked else [])]
    if warnings:
        with (folder / LOG_FILE).open("ab") as file:
            file.writelines(encode_record({"kind": Kind.WARNING, **warning.to_json()}) for warning in warnings)


def _choose(folder: Path, log: LiveLog, observed: Observed | None) -> _Choice:
    """Marks are what the user says; then what was seen inside the processes; then the output."""
    from trainmark.analyse.agreement import compare

    witnesses: dict[str, Witness] = {}
    printed = _read_printed(folder, log)
    if observed is not None:
        has_samples = printed is not None and printed.unit != "iterations"
        witnesses["observer"] = _as_witness(observed, log.unit if has_samples else log.sample_name)
    if (marked := _read_marked(folder)) is not None:
        witnesses["mark"] = marked
    if printed is not None:
        witnesses["log"] = printed
    chosen = next((name for name in ("mark", "observer", "log") if name in witnesses), None)
    if chosen is None:
        return _Choice(witness=None, unit=log.unit, witnesses={})
    values, warning = compare(witnesses, chosen)
    warnings: tuple[Message, ...] = () if warning is None else (warning,)
    if chosen == "observer" and observed is not None and _is_uneven(observed.counts):
        warnings += (uneven_observed(least=min(observed.counts), most=max(observed.counts)),)
    if chosen == "observer" and observed is not None and observed.num_dispatched:
        warnings += (dispatch_times(count=observed.num_dispatched, total=min(observed.counts)),)
    return _Choice(witness=chosen, unit=witnesses[chosen].unit, witnesses=values, warnings=warnings)


def _is_uneven(counts: tuple[int, ...]) -> bool:
    return max(counts) - min(counts) > 1 and min(counts) < 0.95 * max(counts)


# -- the witnesses -----------------------------------------------------------------------------------------------------


def _as_witness(observed: Observed, printed_unit: str | None) -> Witness:
    import numpy as np

    from trainmark.analyse.agreement import Witness

    steps = np.ones(len(observed.seconds))
    counts = {"samples": observed.samples, "tokens": observed.tokens, "iterations": steps}
    # Of the first steps the batch may be unknown.
    known = {
        unit: column
        for unit, column in counts.items()
        if np.isfinite(column).mean() >= _KNOWN_SHARE and np.nansum(column) > 0
    }
    unit = _choose_unit(known.keys(), printed_unit, observed)
    if unit not in known:
        known[unit] = known["samples"]  # images, sentences: the log has another name for them
    return Witness(
        name="observer",
        unit=unit,
        seconds=observed.seconds,
        counts=known,
        ends_s=observed.ends_s,
        wall_s=observed.wall_s,
    )


def _choose_unit(known: Iterable[str], printed: str | None, observed: Observed) -> str:
    """As the log names it, so that both can be compared; otherwise by what the batches look like."""
    has = set(known)
    if printed == "tokens" and "tokens" in has:
        return "tokens"
    if printed not in (None, "tokens", "iterations") and "samples" in has:
        return str(printed)
    if observed.is_language and "tokens" in has:
        return "tokens"
    return "samples" if "samples" in has else "iterations"


def _read_marked(folder: Path) -> Witness | None:
    import numpy as np

    from trainmark.analyse.agreement import Witness
    from trainmark.store.marked_steps import read_marked

    found = read_marked(folder)
    if found is None:
        return None
    seconds, samples = found.steps.seconds, found.steps.samples
    ends = _mark_times(folder, found.steps.steps.tolist())
    counts = {"samples": samples, "iterations": np.ones(len(seconds))}
    return Witness(name="mark", unit="samples", seconds=seconds, counts=counts, ends_s=np.array(ends))


def _mark_times(folder: Path, steps: list[float]) -> list[float]:
    """When the steps of the first process that marks were marked."""
    times = {}
    for path in rank_files(folder)[:1]:
        for record in read_records(path):
            if record["kind"] == Kind.STEP:
                times[as_float(record.get("step"))] = as_float(record.get("unix_s"))
    return [time_s if (time_s := times.get(step)) is not None else float("nan") for step in steps]


def _read_printed(folder: Path, log: LiveLog) -> Witness | None:
    import numpy as np

    from trainmark.analyse.agreement import Witness

    rows = []
    for record in read_records(folder / LOG_FILE):
        if record["kind"] == Kind.STEP:
            seconds, samples = as_float(record.get("seconds")), as_float(record.get("samples"))
            if seconds is not None and samples is not None and seconds > 0 and samples > 0:
                rows.append((seconds, samples, as_float(record.get("unix_s")) or float("nan")))
    if not rows:
        return None
    columns = np.array(rows)
    return Witness(
        name="log", unit=log.unit, seconds=columns[:, 0], counts={log.unit: columns[:, 1]}, ends_s=columns[:, 2]
    )


# -- facts -------------------------------------------------------------------------------------------------------------


def _complete(cell: CellRecord, log: LiveLog, observed: Observed | None) -> CellRecord:
    found = log.facts
    batch = found.batch_size_per_device or (observed.batch_size if observed is not None else None)
    framework = found.framework or (observed.framework if observed is not None else None)
    is_alone = cell.nodes == 1 and cell.devices_per_node == 1
    processes = len(observed.counts) if observed is not None and is_alone else None
    return replace(
        cell,
        framework=cell.framework or framework,
        precision=cell.precision or found.precision,
        batch_size_per_device=cell.batch_size_per_device if cell.batch_size_per_device is not None else batch,
        devices_per_node=processes or cell.devices_per_node,
    )


def _describe(observed: Observed | None, why: Message | None) -> Json:
    if observed is None:
        return {"why_not": why.to_json() if why is not None else None}
    facts = {"framework": observed.framework, "signal": observed.signal, "processes": len(observed.counts)}
    return {**facts, "steps": max(observed.counts), "skipped_steps": observed.num_skipped}


def _why_not_observed(folder: Path) -> Message:
    notes = list(read_records(folder / OBSERVER_FILE))
    kinds: dict[str, list[str]] = {}
    for note in notes:
        kinds.setdefault(str(note["kind"]), []).append(as_text(note.get("what")) or "")
    if not notes:
        return hook_not_loaded()
    if failed := kinds.get("failed"):
        return observer_failed(errors=list(dict.fromkeys(failed))[:_MAX_WHY])
    frameworks = list(dict.fromkeys(kinds.get("framework", [])))
    return no_optimizer_step(frameworks=frameworks[:_MAX_WHY]) if frameworks else no_framework()
