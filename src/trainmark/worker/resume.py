"""What a resumed training takes over from the run that was interrupted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.messages.message import Message
from trainmark.messages.training import target_not_reached
from trainmark.runfolder.files import Json, find_checkpoint, rank_file
from trainmark.runfolder.records import Kind, read_records
from trainmark.worker.engine import Engine
from trainmark.worker.loop import ResumePoint
from trainmark.worker.recorder import Recorder


@dataclass(frozen=True, kw_only=True)
class Past:
    """Of a training before this process; empty for a new run."""

    point: ResumePoint = field(default_factory=ResumePoint)
    losses: tuple[float, ...] = ()
    warnings: frozenset[Message] = frozenset()


def resume(engine: Engine, earlier: Path, recorder: Recorder) -> Past:
    """Restore the engine and copy the records up to the checkpoint, so that the new folder has the whole training."""
    checkpoint = find_checkpoint(earlier)
    if checkpoint is None:
        raise FileNotFoundError(f"no checkpoint in {earlier}")
    restored = engine.restore(checkpoint)
    point = ResumePoint(
        num_steps=int(restored["num_steps"]),
        device_s=restored["device_s"],
        wall_s=restored["wall_s"],
        evaluated_step=int(restored["evaluated_step"]),
    )
    losses: list[float] = []
    warnings: set[Message] = set()
    for record in records_before(read_records(earlier / rank_file(engine.rank)), point):
        recorder.write(record)
        losses += [record["loss"]] if record.get("loss") is not None else []
        warnings |= {Message.from_json(record)} if record["kind"] == Kind.WARNING else set()
    # The copied steps give the usual step time, but the next step has to warm up first: allow it more.
    recorder.write({"kind": Kind.PHASE, "phase": "resume", "edge": "begin", "step": point.num_steps})
    return Past(point=point, losses=tuple(losses), warnings=frozenset(warnings))


def records_before(earlier: Iterable[Json], point: ResumePoint) -> Iterator[Json]:
    """Those that the checkpoint covers, and all warnings except the verdict at the end; the rest will happen again."""
    for record in earlier:
        if record["kind"] == Kind.WARNING:
            is_kept = record.get("code") != target_not_reached.code
        else:
            is_kept = _is_covered(record, point)
        if is_kept:
            yield record


def _is_covered(record: Json, point: ResumePoint) -> bool:
    """A checkpoint may be older than the evaluation at its own step."""
    is_evaluation = record["kind"] == Kind.EVAL or record.get("phase") == "eval"
    last_step = point.evaluated_step if is_evaluation else point.num_steps
    return record["kind"] in (Kind.STEP, Kind.EVAL, Kind.PHASE) and record.get("step", last_step + 1) <= last_step
