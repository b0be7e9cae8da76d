"""The records of a command, from the witness that its result rests on: marks, observed steps or the output.

Steps that the processes of a command marked with `trainmark.mark` are in a rank file of each process, and are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainmark.messages.commands import uneven_marks
from trainmark.runfolder.document import RunDocument
from trainmark.runfolder.files import LOG_FILE, Json, rank_files
from trainmark.store.observed_steps import Observed, read_observed
from trainmark.store.rank_records import RankRecords, read_rank, warn_left_out
from trainmark.store.step_columns import MOST_STEPS

if TYPE_CHECKING:
    from trainmark.store.rows import Floats

_UNEVEN = 0.95
"""A difference of one step is normal: a command may end between the marks of two processes."""


def read_command(folder: Path, document: RunDocument) -> RankRecords:
    """By the witness that run.json names; in folders of older versions, marks count before the output."""
    printed = read_rank(folder / LOG_FILE)
    if document.witness == "observer" and (observed := read_observed(folder)) is not None:
        return _as_records(observed, document.unit, printed)
    marked = read_marked(folder)
    if marked is None or document.witness in ("log", "clock"):
        return printed
    warnings = (*marked.warnings, *_without_log(printed.warnings))
    return replace(marked, evals=marked.evals or printed.evals, warnings=warnings)


_OF_COMMANDS = ("witnesses-disagree", "not-observed", "uneven-observed", "dispatch-times", "no-records")


def _without_log(warnings: Sequence[Json]) -> tuple[Json, ...]:
    """Without those about how the log was read, on which the result does not rest."""
    return tuple(warning for warning in warnings if warning["code"] in _OF_COMMANDS)


def _as_records(observed: Observed, unit: str, printed: RankRecords) -> RankRecords:
    """Steps with as many samples as `unit` says; evaluations and losses are known from the output only."""
    counts = {"tokens": observed.tokens, "iterations": np.ones(len(observed.seconds))}.get(unit, observed.samples)
    begin_s = observed.ends_s[0] - observed.seconds[0]
    columns = {"seconds": observed.seconds, "samples": counts, "steps": observed.steps}
    columns["times"] = observed.ends_s - begin_s
    joined = _join_empty({name: column[np.isfinite(counts)] for name, column in columns.items()})
    return replace(
        printed,
        steps=replace(printed.steps, **joined),
        num_steps=len(joined["seconds"]),
        warnings=(
            *_without_log(printed.warnings),
            *warn_left_out(len(observed.seconds), observed.num_left_out),
        ),
        pauses=observed.pauses,
        first_step_unix_s=float(begin_s),
    )


def read_marked(folder: Path) -> RankRecords | None:
    """None if no process marked a step with samples."""
    paths = rank_files(folder)
    most = 4 * MOST_STEPS // max(1, len(paths))  # the memory is for all of them together
    marked = [read_rank(path, is_marked=True, most_steps=most) for path in paths]
    marked = [found for found in marked if (found.steps.samples > 0).any()]
    if not marked:
        return None
    evals = next((found.evals for found in marked if found.evals), ())
    return replace(_add_up(marked), evals=evals)


def _add_up(marked: Sequence[RankRecords]) -> RankRecords:
    """Only the steps that all processes have done, timed by the first process."""
    counts = [len(found.steps.seconds) for found in marked]
    num_steps = min(counts)
    first = marked[0].steps
    columns = {
        "seconds": first.seconds[:num_steps],
        "steps": first.steps[:num_steps],
        "times": first.times[:num_steps],
        "samples": np.sum([found.steps.samples[:num_steps] for found in marked], axis=0),
    }
    is_known = np.isfinite(columns["samples"]) & np.isfinite(columns["seconds"])
    joined = _join_empty({name: column[is_known] for name, column in columns.items()})
    return replace(
        marked[0],
        steps=replace(first, **joined),
        num_steps=len(joined["seconds"]),
        warnings=(*marked[0].warnings, *_warn_uneven(counts)),
    )


def _join_empty(columns: dict[str, Floats]) -> dict[str, Floats]:
    """The time of a step without samples is added to the next step that has some."""
    (full,) = np.nonzero(columns["samples"] > 0)
    if not len(full):
        return {name: column[:0] for name, column in columns.items()}
    begins, columns = np.append(0, full[:-1] + 1), {name: column[: full[-1] + 1] for name, column in columns.items()}
    return {
        **{name: column[full] for name, column in columns.items()},
        "seconds": np.add.reduceat(columns["seconds"], begins),
    }


def _warn_uneven(counts: Sequence[int]) -> list[Json]:
    least, most = min(counts), max(counts)
    if most - least <= 1 or least >= _UNEVEN * most:
        return []
    return [uneven_marks(least=least, most=most).to_json()]
