"""The records of a command while it runs: steps that its script marks, that are observed inside it, or that it prints.

Marked steps (`trainmark.mark`) are in rank<k>.jsonl and observed steps in rank<k>.observed.jsonl, one file per process.
What is read from the output goes to log.jsonl, so that nothing is lost if a script does several of these. Marks count
before observed steps, and both before the output.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import statistics
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from trainmark.launch import hang
from trainmark.launch.endings import judge_command
from trainmark.launch.hang import dump_stacks
from trainmark.launch.processes import read_oom_kills
from trainmark.messages.commands import bad_mark, command_bad_loss, no_output, no_records
from trainmark.messages.message import Message
from trainmark.runfolder.document import RunDocument
from trainmark.runfolder.files import (
    LOG_FILE,
    OUTPUT_FILE,
    STACKS_FILE,
    Json,
    observed_files,
    rank_files,
    replacing,
)
from trainmark.runfolder.records import Kind, Outcome, RecordTail, encode_record
from trainmark.runfolder.values import as_int
from trainmark.silence_limit import NUM_RECENT, SilenceLimit

_LEAST_S = 600.0
"""A script may evaluate or write a checkpoint for minutes without any output."""
_CHUNK_BYTES = 1 << 20
_MOST_CHUNKS = 64
"""Per look: a command that prints without end must not prevent the check of its time limit."""
_LAST_BYTES = 1 << 16
"""The summary of a launcher with hundreds of ranks has some ten kilobytes, and the error of the rank is before it."""
_MAX_VALUE = 80


class OutputReader(Protocol):
    """Makes records from the output of a command; see `trainmark.logs.live`."""

    @property
    def unit(self) -> str:
        """What the records count."""

    def feed(self, chunk: bytes, written_s: float | None) -> list[Json]:
        """`written_s` is when the end of the chunk was written, by the file's clock."""

    def close(self) -> list[Json]:
        """The records of an unfinished last line."""

    def reread(self, output: Path, looks: Iterable[tuple[int, float | None]]) -> Iterator[Json] | None:
        """All records, read again with what is known at the end; None if they stay the same.

        `looks` has the size and time of every chunk that `feed` got.
        """


class CommandSource:
    def __init__(self, folder: Path, reader: OutputReader, *, finish: Callable[[], None] = lambda: None) -> None:
        """`finish` is called at the end, before exit.json is written, to add what is known only then."""
        self._folder, self._reader, self._finish = folder, reader, finish
        self._marked = _StepFiles(folder, rank_files)
        self._observed = _StepFiles(folder, observed_files)
        self._offset = 0
        self._looks = array("d")
        """Size and time of each chunk, as two numbers: a run of days has millions of chunks."""
        self._last_output = b""
        self._last_sign = time.monotonic()
        self._last_step: float | None = None
        self._gaps: deque[float] = deque(maxlen=NUM_RECENT)
        self._silence_limit = SilenceLimit.of(RunDocument.read(folder), least_s=_LEAST_S, setup_s=math.inf)
        self._num_oom_kills = read_oom_kills()
        self._stacks: str | None = None
        self._num_read = 0
        self._bad_loss: Message | None = None

    def begin(self) -> None:
        self._last_sign = time.monotonic()

    def read_new(self) -> list[Json]:
        marked = self._read_marked()
        observed = self._read_steps(self._observed)
        printed = self._read_output()
        new = marked if self._marked.num_steps else observed if self._observed.num_steps else printed
        if any(record["kind"] == Kind.STEP for record in new):
            now = time.monotonic()
            if self._last_step is not None:
                self._gaps.append(now - self._last_step)
            self._last_step = now
        return new

    @property
    def unit(self) -> str:
        """Of the records that `read_new` returns."""
        return "samples" if self._marked.num_steps or self._observed.num_steps else self._reader.unit

    def quiet_s(self) -> tuple[float, float]:
        """Without a usual gap between records there is no limit."""
        return time.monotonic() - self._last_sign, self._silence_limit.after(self._gaps)

    def explain_silence(self, silence_s: float) -> Message:
        run_id = self._folder.name
        states = hang.read_states(run_id)
        stopped = hang.describe_stopped(states)
        dumped = dump_stacks(run_id, self._folder / STACKS_FILE)
        self._stacks = dumped if isinstance(dumped, str) else None
        return no_output(
            seconds=silence_s,
            usual_s=statistics.median(self._gaps) if self._gaps else None,
            stopped=stopped,
            no_stacks=dumped if isinstance(dumped, Message) else None,
        )

    def close(self, returncode: int | None) -> dict[int, Json]:
        # Even with a full disk or a pattern that takes too long, the end of the run must be written.
        with contextlib.suppress(Exception):
            self._read_marked()
            self._read_output(None)
            self._keep(self._reader.close())
            self._keep_final()
        with contextlib.suppress(OSError):
            self._finish()
        if self._stacks is not None:
            return {0: {"kind": Kind.RUN_END, "outcome": Outcome.HANG, "look_at": self._stacks}}
        end = judge_command(
            returncode=returncode,
            last_output=self._last_output,
            bad_loss=self._bad_loss,
            bad_mark=next((_explain(record) for record in self._marked.bad_marks), None),
            was_oom_killed=(read_oom_kills() or 0) > (self._num_oom_kills or 0),
        )
        has_steps = self._marked.num_steps or self._observed.num_steps or self._num_read
        if returncode == 0 and not has_steps:
            with contextlib.suppress(OSError):
                self._keep([{"kind": Kind.WARNING, **no_records().to_json()}])
        return {0: end}

    def _read_marked(self) -> list[Json]:
        shown = self._read_steps(self._marked)
        for record in shown:
            if record["kind"] == Kind.STEP:
                self._note_loss(record)
        return shown

    def _read_steps(self, files: _StepFiles) -> list[Json]:
        shown, has_new = files.read_new()
        if has_new:
            self._last_sign = time.monotonic()
        return shown

    def _read_output(self, most_chunks: int | None = _MOST_CHUNKS) -> list[Json]:
        found: list[Json] = []
        try:
            with (self._folder / OUTPUT_FILE).open("rb") as file:
                file.seek(self._offset)
                for chunk, written_s in itertools.islice(_chunks(file), most_chunks):
                    self._offset += len(chunk)
                    self._last_output = (self._last_output + chunk)[-_LAST_BYTES:]
                    self._last_sign = time.monotonic()
                    self._looks.extend((len(chunk), math.nan if written_s is None else written_s))
                    found += self._reader.feed(chunk, written_s)
        except FileNotFoundError:
            return []
        self._keep(found)
        return found

    def _keep(self, found: list[Json]) -> None:
        if not found:
            return
        with (self._folder / LOG_FILE).open("ab") as file:
            file.write(b"".join(encode_record(record) for record in found))
        for record in found:
            self._note_read(record)

    def _keep_final(self) -> None:
        """Replace log.jsonl atomically: the old file is better than half of a new one."""
        pairs = zip(self._looks[::2], self._looks[1::2], strict=True)
        looks = ((int(num_bytes), None if math.isnan(came_s) else came_s) for num_bytes, came_s in pairs)
        records = self._reader.reread(self._folder / OUTPUT_FILE, looks)
        if records is None:
            return
        before = self._num_read, self._bad_loss
        self._num_read, self._bad_loss = 0, self._bad_loss if self._marked.num_steps else None
        try:
            with replacing(self._folder / LOG_FILE) as file:
                for record in records:
                    file.write(encode_record(record))
                    self._note_read(record)
        except BaseException:
            self._num_read, self._bad_loss = before
            raise

    def _note_read(self, record: Json) -> None:
        if record["kind"] == Kind.STEP:
            self._num_read += 1
            self._note_loss(record)

    def _note_loss(self, record: Json) -> None:
        """Only the last loss counts: with a loss scaler a good run may start with an infinite loss."""
        if "loss" in record:
            is_bad = record["loss"] is None
            self._bad_loss = command_bad_loss(step=record.get("step")) if is_bad else None


class _StepFiles:
    """The files of steps that the processes of a command write, one for each."""

    def __init__(self, folder: Path, find: Callable[[Path], list[Path]]) -> None:
        self.num_steps = 0
        self.bad_marks: list[Json] = []
        """Records of calls with values that cannot be samples."""
        self._folder, self._find = folder, find
        self._tails: dict[Path, RecordTail] = {}

    def read_new(self) -> tuple[list[Json], bool]:
        """The new steps of the first process with the samples of all, to show progress; whether any process has new."""
        paths = self._find(self._folder)
        shown: list[Json] = []
        has_new = False
        for number, path in enumerate(paths):
            found = self._tails.setdefault(path, RecordTail(path)).read_new()
            self.bad_marks += [record for record in found if "bad_samples" in record][:1]
            if self._find is observed_files:
                for record in found:
                    record.setdefault("samples", 1)  # the size of a batch may be unknown
            new = [record for record in found if _is_sound(record)]
            self.num_steps += sum(record["kind"] == Kind.STEP for record in new)
            has_new = has_new or bool(found)
            if number == 0:
                shown = [record for record in new if "beside" not in record]
        for record in shown:
            if record["kind"] == Kind.STEP:
                record["samples"] *= len(paths)
        return shown, has_new


def _chunks(file: BinaryIO) -> Iterator[tuple[bytes, float | None]]:
    """Each with the time of its last byte, if that is known because nothing was written after it."""
    while chunk := file.read(_CHUNK_BYTES):
        facts = os.fstat(file.fileno())
        if facts.st_size != file.tell():  # more was written between the two calls, or is more than a chunk
            chunk += file.read(_CHUNK_BYTES - len(chunk))
            facts = os.fstat(file.fileno())
        yield chunk, facts.st_mtime if facts.st_size == file.tell() else None


def _explain(record: Json) -> Message:
    return bad_mark(step=as_int(record.get("step")), got=str(record["bad_samples"])[:_MAX_VALUE])


def _is_sound(record: Json) -> bool:
    """Whether a step has a duration and samples: a script may pass anything to `mark.step`."""
    numbers = [record.get(name) for name in ("seconds", "samples")] if record["kind"] == Kind.STEP else []
    return all(isinstance(number, (int, float)) and 0 < number < math.inf for number in numbers)
