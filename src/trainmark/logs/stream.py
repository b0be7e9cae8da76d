"""Read a log incrementally: chunks in, records out, in one pass and constant memory.

    stream = LogStream(load_dialects())
    for chunk in chunks:
        for record in stream.feed(chunk): ...
    stream.close()

`stream.dialect` is None until a line is recognised; `stream.facts` is what is known about the run so far.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from trainmark.logs import shared
from trainmark.logs.columns import ColumnReader, Rows, StepRows
from trainmark.logs.dialect import Dialect, Probe
from trainmark.logs.noise import clean_line
from trainmark.logs.record import FACT_NAMES, Claim, Facts, LogRecord
from trainmark.logs.scan import MAX_LINE_BYTES, detect, lines_with, read_line
from trainmark.logs.spool import absent
from trainmark.logs.template import LineReader

_HEAD_BYTES = 1 << 20
_TAIL_BYTES = 1 << 18
_MAX_CARRY_BYTES = 1 << 20
_MAX_CHOICE_BYTES = 64 << 20
_MAX_CLAIMS = 20
_RECENT_STEPS = 256
_ENDS_LINES = 100
_OPEN_NUMBER = b"0123456789.,+-"
_SAME_MOMENT_S = 1.0
_MEASURED_BATCHES = 51
_MIN_CONSTANT = 3
_MIN_PART_BYTES = 1 << 13
_FIRST_PART_BYTES = 1 << 16
_MAX_TEMPLATES = 64
_KEPT_TEMPLATES = 3
_MAX_FAILED = 256
_TEXT_UNITS = ("words", "tokens", "examples")
"""Their number per batch varies with the text."""


Readers = dict[bytes, list[tuple[int, LineReader]]]
"""By literal; with the place of each probe in its dialect."""


class Sink(Protocol):
    def add(self, record: LogRecord) -> None: ...
    def add_rows(self, rows: Rows, peak_memory_bytes: int | None = None) -> None:
        """Add steps in the order of the log; the memory is the largest of them."""


class LogStream:
    def __init__(self, dialects: Sequence[Dialect], *, sink: Sink | None = None) -> None:
        """With a sink, records go there and no list is returned, so a block of steps needs no objects."""
        self.dialect: Dialect | None = None
        self.confidence = 0.0
        """0 if no line is recognised yet, 0.5 after one line, approaching 1."""
        self.num_bytes = 0
        self.num_other_ranks = 0
        """Records left out because another rank printed the same step."""
        self.was_replaced = False
        """Records were read with a dialect of lower priority before the right one was found: read the log again."""
        self.last_step: int | None = None
        self.last_epoch: float | None = None
        self._dialects = tuple(dialects)
        self._sink = sink
        self._columns: list[ColumnReader] = []
        self._num_templates = 0
        self._num_failed = 0
        self._is_evaluating = False
        self._section_epoch: float | None = None
        self._bar_total: int | None = None
        self._last_evals: dict[str | None, float | None] = {}
        self._step_before: int | None = None
        self._recent_rows: list[Rows] = []
        self._carry = b""
        self._head = b""
        """Kept until the dialect is known, then searched with its own probes; the first record may come late."""
        self._tail = (b"", 0, 0)
        self._claims: dict[str, list[Claim]] = {}
        self._recent: dict[tuple[float | None, int | None], tuple[int | None, float | None]] = {}
        self._rank_of_eval: dict[tuple[object, ...], int] = {}
        self._rank: int | None = None
        self._num_hits = 0
        self._batches: list[float] = []
        self._learning_rates: list[float] = []
        self._num_noted = 0
        self._everywhere: Readers = {}
        self._ends: Readers = {}
        self._choose(None)

    # -- reading -------------------------------------------------------------------------------------------------------

    def feed(self, chunk: bytes) -> list[LogRecord]:
        stop = max(chunk.rfind(b"\n"), chunk.rfind(b"\r", max(0, len(chunk) - MAX_LINE_BYTES))) + 1
        if stop == 0:
            self._carry += chunk
            if len(self._carry) <= _MAX_CARRY_BYTES:
                return []
            # A line of megabytes is read in parts, so that memory stays bounded.
            block, self._carry = self._carry, b""
            return self._read_block(block)
        found: list[LogRecord] = []
        start = 0
        if self._carry:
            # Join only the line that was cut; copying whole blocks would cost as much as searching them.
            start = _end_of_first_line(chunk)
            found = self._read_block(self._carry + chunk[:start])
        self._carry = chunk[stop:]
        return found + self._read_block(chunk, start, stop) if stop > start else found

    def close(self) -> list[LogRecord]:
        """Read the rest. An unfinished last line may have lost digits, so a number at its end is left out."""
        rest, self._carry = self._carry[-MAX_LINE_BYTES:], b""
        if rest[-1:] and rest[-1] in _OPEN_NUMBER:
            rest = rest.rstrip(_OPEN_NUMBER + b"eE")
        found = self._read_block(rest) if rest else []
        if self.num_bytes > _HEAD_BYTES:
            self._read_ends(self._last_part())
        self._tail = (b"", 0, 0)
        return found

    def _read_block(self, block: bytes, start: int = 0, stop: int | None = None) -> list[LogRecord]:
        """Read whole lines from `start` to `stop`. Slicing a large block would cost as much as searching it."""
        last = len(block) if stop is None else stop
        head = self._head
        if self.num_bytes < _HEAD_BYTES:
            part = block[start : min(last, start + _HEAD_BYTES - self.num_bytes)]
            self._read_ends(part)
            if self._may_choose():
                self._head += part
        self.num_bytes += last - start
        self._keep_tail(block, start, last)
        has_returns = block.find(b"\r", start, last) >= 0
        if self._may_choose():
            whole = block[start:last]
            chosen = detect(whole, self._candidates, has_returns=has_returns)
            if chosen is not None:
                self.was_replaced = self.was_replaced or self._num_hits > 0
                self._num_hits = 0
                self._choose(chosen)
                self._read_ends(self._head)
                if self.num_bytes > _HEAD_BYTES:
                    self._read_ends(self._last_part())
                return self._read_earlier(head) + self._read_part(block, start, last, has_returns=has_returns)
        return self._read_part(block, start, last, has_returns=has_returns)

    def _read_earlier(self, head: bytes) -> list[LogRecord]:
        """Evaluations and headings before the first step, which no dialect was there to read."""
        assert self.dialect is not None
        before = self._everywhere
        self._everywhere = _by_anchor([probe for probe in self.dialect.others if probe.where == "everywhere"])
        found = self._scan(head, 0, len(head), has_returns=b"\r" in head, steps=None) if head else []
        self._everywhere = before
        return self._emit(list(self._by_sections([record for record in found if record.kind in ("section", "eval")])))

    def _read_part(self, block: bytes, start: int, last: int, *, has_returns: bool) -> list[LogRecord]:
        """Read by columns if all lines are alike. One odd line makes only the lines near it be read one by one."""
        steps = self._read_columns(block, start, last) if not has_returns else None
        if steps is None and self._may_split(last - start, has_returns=has_returns):
            middle = block.find(b"\n", (start + last) // 2, last) + 1
            if start < middle < last:
                before = self._read_part(block, start, middle, has_returns=has_returns)
                return before + self._read_part(block, middle, last, has_returns=has_returns)
        self._num_failed = self._num_failed + 1 if steps is None else 0
        if self._num_failed > _MAX_FAILED:
            self._columns = []  # lines keep changing: trying would cost more than it saves
        found = self._scan(block, start, last, has_returns=has_returns, steps=steps)
        records = [record for record in self._by_sections(found) if self._is_new(record)]
        self._note_progress(records)
        return self._emit(records)

    def _emit(self, records: list[LogRecord]) -> list[LogRecord]:
        if self._sink is None:
            return records
        for record in records:
            self._sink.add(record)
        return []

    def _may_split(self, num_bytes: int, *, has_returns: bool) -> bool:
        least = _MIN_PART_BYTES if self._columns else _FIRST_PART_BYTES  # the first part teaches how to read the rest
        return self._sink is not None and not has_returns and num_bytes > least

    def _by_sections(self, found: Sequence[LogRecord]) -> Iterator[LogRecord]:
        """Give steps the epoch of the heading before them, and leave out those of an evaluation."""
        for record in found:
            if record.kind == "section":
                self._is_evaluating = record.name == "eval"
                self._section_epoch = record.epoch if record.epoch is not None else self._section_epoch
                continue
            if record.epoch is None and self._section_epoch is not None:
                record.__dict__["epoch"] = self._section_epoch
            if record.kind == "step":
                self._bar_total = self._bar_total if self._bar_total is not None else record.of
                if self._is_evaluating or record.of != self._bar_total:
                    continue
                self._is_evaluating = record.is_last
            yield record

    def _may_choose(self) -> bool:
        """Lines of a protocol such as AI-Rank, or a bar, decide only if no framework's records are found."""
        return self.dialect is None or (self.dialect.priority < 0 and self.num_bytes < _MAX_CHOICE_BYTES)

    def _read_columns(self, block: bytes, start: int, last: int) -> StepRows | None:
        """The steps of the block as columns; None if they must be read line by line."""
        if self._sink is None or not self._columns or self._num_noted < _MEASURED_BATCHES:
            return None
        for reader in self._columns:
            steps = reader.read(block, start, last)
            if steps is not None and not self._has_other_steps(reader, steps, block, start, last):
                break
        else:
            return None
        if not self._goes_on(steps.rows):
            return None
        self._columns = [reader, *(other for other in self._columns if other is not reader)]
        self._sink.add_rows(steps.rows, steps.peak_memory_bytes)
        self._recent_rows = [*self._recent_rows[-1:], steps.rows]
        self._num_hits += len(steps.rows)
        self._step_before = self.last_step
        last_row = steps.rows[-1].tolist()
        if absent(last_row[1]) is not None:
            self.last_step, self.last_epoch = int(last_row[1]), absent(last_row[2]) or self.last_epoch
        return steps

    def _has_other_steps(self, reader: ColumnReader, steps: StepRows, block: bytes, start: int, last: int) -> bool:
        """Steps with another literal would have to be put between those of the columns."""
        assert self.dialect is not None
        others = {probe.anchor for probe in self.dialect.steps} - {reader.anchor}
        return any(
            block.find(anchor, start, last) >= 0
            for anchor in others
            if not steps.is_whole or reader.may_contain(anchor)
        )

    def _goes_on(self, rows: Rows) -> bool:
        """Whether iterations only increase, so that no line repeats a step for another rank."""
        if self.last_step is None and self._rank is None and np.isnan(rows[:, 1]).all():
            return True  # lines without iterations
        if self._rank is not None or self.last_step is None or np.isnan(rows[:, 1]).any():
            return False
        steps_up = np.diff(rows[:, 1], prepend=self.last_step) > 0
        epochs = rows[:, 2]
        if np.isnan(epochs).all():
            return bool(steps_up.all())
        first = -np.inf if self.last_epoch is None else self.last_epoch
        epochs_up = np.diff(np.nan_to_num(epochs, nan=0.0), prepend=first)
        return bool(((epochs_up > 0) | ((epochs_up == 0) & steps_up)).all())

    def _keep_tail(self, block: bytes, start: int, last: int) -> None:
        """A large block is kept without copying; small ones are joined."""
        if last - start >= _TAIL_BYTES:
            self._tail = (block, start, last)
        else:
            together = (self._last_part() + block[start:last])[-_TAIL_BYTES:]
            self._tail = (together, 0, len(together))

    def _last_part(self) -> bytes:
        block, start, last = self._tail
        return block[max(start, last - _TAIL_BYTES) : last]

    def _scan(
        self, block: bytes, first: int, last: int, *, has_returns: bool, steps: StepRows | None
    ) -> list[LogRecord]:
        """Read every line that a probe matches, in the order of the log."""
        found: list[tuple[int, int, LogRecord]] = []
        for anchor, readers in self._everywhere.items():
            if steps is not None and self._is_done(anchor, steps):
                continue
            for start, end in lines_with(block, anchor, has_returns=has_returns, start=first, stop=last):
                raw = block[start:end]
                line, rank = clean_line(raw)
                for number, reader in readers:
                    made = read_line(line, rank, reader, raw=raw)
                    if isinstance(made, LogRecord):
                        self._learn_columns(line, made, rank, readers)
                        found.append((start, number, made))
                    elif made is not None:
                        self._note_facts(made, reader.probe, line)
        found.sort(key=itemgetter(0, 1))
        found = _one_step_per_line(found)
        if steps is not None:
            found = [(start, number, self._after_step(record, start, steps)) for start, number, record in found]
        return [record for _, _, record in found]

    def _is_done(self, anchor: bytes, steps: StepRows) -> bool:
        """Whether the columns are all that the literal could find."""
        reader = self._columns[0]
        return anchor == reader.anchor or (steps.is_whole and not reader.may_contain(anchor))

    def _after_step(self, record: LogRecord, start: int, steps: StepRows) -> LogRecord:
        """An evaluation without an iteration number belongs to the last iteration before it."""
        if record.kind != "eval" or record.step is not None:
            return record
        before = int(np.searchsorted(steps.positions, start)) - 1
        return replace(record, step=int(steps.rows[before, 1]) if before >= 0 else self._step_before)

    def _learn_columns(
        self, line: bytes, record: LogRecord, rank: int | None, readers: Sequence[tuple[int, LineReader]]
    ) -> None:
        """Only for step lines whose literal is used by nothing else."""
        if self._sink is None or record.kind != "step" or rank is not None or self._num_templates >= _MAX_TEMPLATES:
            return
        if self.dialect is None or len(readers) != 1 or self.dialect.repeats_lines:
            return
        if readers[0][1].probe in self.dialect.steps and self._num_noted >= _MEASURED_BATCHES:
            self._num_templates += 1
            made = ColumnReader.of(line, readers[0][1].probe)
            if made is not None and not any(made.is_like(known) for known in self._columns):
                self._columns = [made, *self._columns[: _KEPT_TEMPLATES - 1]]

    def _read_ends(self, part: bytes) -> None:
        has_returns = b"\r" in part
        for anchor, readers in self._ends.items():
            for tried, (start, end) in enumerate(lines_with(part, anchor, has_returns=has_returns)):
                if tried >= _ENDS_LINES:
                    break
                end = _end_of_lines(part, end, readers[0][1].probe.num_lines - 1)
                line, rank = clean_line(part[start:end])
                for _, reader in readers:
                    made = read_line(line, rank, reader)
                    if made is not None and not isinstance(made, LogRecord):
                        self._note_facts(made, reader.probe, line)

    def _choose(self, dialect: Dialect | None) -> None:
        """Search for each literal once, however many probes share it."""
        self.dialect = dialect
        self._candidates = [other for other in self._dialects if dialect is None or other.priority > dialect.priority]
        own = (*dialect.steps, *dialect.others) if dialect is not None else ()
        probes = dict.fromkeys((*own, *shared.EVERYWHERE))
        self._everywhere = _by_anchor([probe for probe in probes if probe.where == "everywhere"])
        self._ends = _by_anchor([probe for probe in (*own, *shared.ENDS) if probe.where == "ends"])

    # -- lines of several ranks ----------------------------------------------------------------------------------------

    def _is_new(self, record: LogRecord) -> bool:
        """False if another rank printed the same step: at the same time, or with another rank's tag."""
        if record.kind == "eval":
            return self._is_new_eval(record)
        if record.kind != "step":
            return True
        if self._num_hits == 0:
            self._rank = record.rank
        if self._recent_rows:
            self._remember_rows()
        key = (record.epoch, record.step)
        known = self._recent.get(key)
        if record.step is None:
            is_new = record.rank == self._rank
        else:
            is_new = known is None or not self._is_twin(record, *known)
        if is_new:
            self._num_hits += 1
            self._recent[key] = (record.rank, record.time_s)
            if len(self._recent) > _RECENT_STEPS:
                del self._recent[next(iter(self._recent))]
        elif known is None or record.rank != known[0] or self.dialect is None or not self.dialect.repeats_lines:
            self.num_other_ranks += 1
        return is_new

    def _is_new_eval(self, record: LogRecord) -> bool:
        """False if a rank with another tag printed the same value, or a bar was redrawn."""
        if self.dialect is not None and self.dialect.repeats_lines:
            before, self._last_evals[record.metric] = self._last_evals.get(record.metric), record.value
            return record.value != before
        if record.rank is None:
            return True
        key = (record.metric, record.value, record.epoch, record.step)
        if self._rank_of_eval.setdefault(key, record.rank) != record.rank:
            return False
        if len(self._rank_of_eval) > _RECENT_STEPS:
            del self._rank_of_eval[next(iter(self._rank_of_eval))]
        return True

    def _remember_rows(self) -> None:
        """Remember the last steps that were read as columns, now that a line must be compared with them."""
        for _, step, epoch, time_s, *_ in np.concatenate(self._recent_rows)[-_RECENT_STEPS:].tolist():
            if absent(step) is not None:
                self._recent[(absent(epoch), int(step))] = (None, absent(time_s))
        self._recent_rows = []
        while len(self._recent) > _RECENT_STEPS:
            del self._recent[next(iter(self._recent))]

    def _is_twin(self, record: LogRecord, rank: int | None, time_s: float | None) -> bool:
        """Whether the same iteration of the same epoch was printed before."""
        if record.rank != rank or (self.dialect is not None and self.dialect.repeats_lines):
            return True
        # Without a tag: an iteration may be repeated after an overflow, but not within its own duration.
        return (
            record.rank is None
            and record.time_s is not None
            and time_s is not None
            and abs(record.time_s - time_s) <= min(_SAME_MOMENT_S, 0.5 * (record.seconds or _SAME_MOMENT_S))
        )

    def _note_progress(self, records: Sequence[LogRecord]) -> None:
        for record in records if self._num_noted < _MEASURED_BATCHES else ():
            if record.kind == "step" and self._num_noted < _MEASURED_BATCHES:
                self._num_noted += 1
                if record.learning_rate is not None:
                    self._learning_rates.append(record.learning_rate)
                if record.rate and record.seconds and record.unit not in _TEXT_UNITS:
                    self._batches.append(record.rate * record.seconds)
        for record in reversed(records):
            if record.kind == "step":
                self.last_step = record.step if record.step is not None else self.last_step
                self.last_epoch = record.epoch if record.epoch is not None else self.last_epoch
                break
        self.confidence = 1 - 0.5**self._num_hits if self._num_hits < 30 else 1.0

    # -- facts ---------------------------------------------------------------------------------------------------------

    def _note_facts(self, found: Mapping[str, Any], probe: Probe, line: bytes) -> None:
        for name, value in found.items():
            if name in FACT_NAMES and value is not None:
                self.claim(name, value, strength=probe.strength, text=line[:200])

    def claim(self, name: str, value: Any, *, strength: int, text: bytes) -> None:
        claims = self._claims.setdefault(name, [])
        if len(claims) < _MAX_CLAIMS and not any((c.value, c.strength) == (value, strength) for c in claims):
            claims.append(Claim(name=name, value=value, strength=strength, text=text.decode(errors="replace").strip()))

    @property
    def claims(self) -> dict[str, tuple[Claim, ...]]:
        """Strongest first, then in the order of the log."""
        found = {name: tuple(sorted(claims, key=lambda c: -c.strength)) for name, claims in self._claims.items()}
        measured = self._measured_batch()
        if measured is not None:
            found[measured.name] = (measured, *found.get(measured.name, ()))
        if len(self._learning_rates) >= _MIN_CONSTANT and len(set(self._learning_rates)) == 1:
            used = Claim(name="learning_rate", value=self._learning_rates[0], strength=3, text="every record")
            found["learning_rate"] = (used, *found.get("learning_rate", ()))
        return found

    def _measured_batch(self) -> Claim | None:
        """Rate times seconds of an iteration gives the batch size that was really used."""
        if not self._batches or self.dialect is None or self.dialect.scope not in ("device", "global"):
            return None
        batch = statistics.median(self._batches)
        if not 0.5 < batch < 1e9 or abs(batch - round(batch)) > max(0.02, 0.005 * batch):
            return None
        name = "batch_size_per_device" if self.dialect.scope == "device" else "global_batch_size"
        return Claim(name=name, value=round(batch), strength=3, text="rate times seconds of the records")

    @property
    def facts(self) -> Facts:
        strongest = {name: found[0].value for name, found in self.claims.items()}
        if self.dialect is not None and self.dialect.framework is not None:
            strongest["framework"] = self.dialect.framework
        return Facts(**strongest)


def _one_step_per_line(found: list[tuple[int, int, LogRecord]]) -> list[tuple[int, int, LogRecord]]:
    """Of several patterns that find a step in one line, the first counts."""
    kept, last = [], -1
    for item in found:
        if item[2].kind == "step":
            if item[0] == last:
                continue
            last = item[0]
        kept.append(item)
    return kept


def _by_anchor(probes: Sequence[Probe]) -> Readers:
    found: Readers = {}
    for number, probe in enumerate(probes):
        found.setdefault(probe.anchor, []).append((number, LineReader(probe)))
    return found


def _end_of_lines(part: bytes, end: int, num_more: int) -> int:
    """The end of the line `num_more` lines after the one that ends at `end`."""
    last = min(len(part), end + MAX_LINE_BYTES)
    for _ in range(num_more):
        own_end = part.find(b"\n", end, last)  # after the carriage return of a Windows line ending
        following = part.find(b"\n", own_end + 1, last) if own_end >= 0 else -1
        if following < 0:
            return last
        end = following
    return end


def _end_of_first_line(chunk: bytes) -> int:
    """Position after the first line feed or carriage return; there must be one."""
    feed = chunk.find(b"\n")
    back = chunk.find(b"\r", 0, feed if feed >= 0 else len(chunk))
    return (back if back >= 0 else feed) + 1
