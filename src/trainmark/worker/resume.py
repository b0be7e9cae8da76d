"""What a resumed training takes over from the records of the run that was cut short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainmark.runfolder.files import Json
from trainmark.runfolder.records import Kind, WarningCode
from trainmark.worker.loop import ResumePoint


def records_before(earlier: Iterable[Json], start: ResumePoint) -> Iterator[Json]:
    """Those of what the checkpoint holds, and all warnings but the verdict at the end; the rest will happen again."""
    for record in earlier:
        if record["kind"] == Kind.WARNING:
            is_kept = record.get("code") != WarningCode.TARGET_NOT_REACHED
        else:
            is_kept = _is_held(record, start)
        if is_kept:
            yield record


def _is_held(record: Json, start: ResumePoint) -> bool:
    """A checkpoint may be older than the evaluation at its own step."""
    is_evaluation = record["kind"] == Kind.EVAL or record.get("phase") == "eval"
    last_step = start.evaluated_step if is_evaluation else start.num_steps
    return record["kind"] in (Kind.STEP, Kind.EVAL, Kind.PHASE) and record.get("step", last_step + 1) <= last_step
