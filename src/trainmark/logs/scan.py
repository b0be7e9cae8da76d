"""Lines that hold a literal, found in whole blocks of bytes: most of a log never becomes a Python object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainmark.logs.dialect import Dialect, Found, Probe
from trainmark.logs.noise import clean_line, time_of
from trainmark.logs.record import LogRecord

MAX_LINE_BYTES = 1 << 14
"""Of a longer line only this much around the literal is looked at."""

_DETECT_LINES = 200
"""So many lines with a dialect's literal are tried before the dialects are compared."""


def lines_with(block: bytes, anchor: bytes, *, has_returns: bool) -> Iterator[tuple[int, int]]:
    """Begin and end of each line that holds `anchor`; a carriage return ends a line too (progress bars)."""
    position = block.find(anchor)
    while position >= 0:
        lowest = max(0, position - MAX_LINE_BYTES)
        start = block.rfind(b"\n", lowest, position)
        highest = position + MAX_LINE_BYTES
        end = block.find(b"\n", position, highest)
        if end < 0:
            end = min(highest, len(block))
        if has_returns:
            start = max(start, block.rfind(b"\r", lowest, position))
            bar_end = block.find(b"\r", position, end)
            end = bar_end if bar_end >= 0 else end
        yield max(start + 1, lowest), end
        position = block.find(anchor, max(end, position + 1))


def read_line(line: bytes, rank: int | None, probe: Probe) -> Found:
    """What the probe makes of a clean line, with the rank of its tag and its time."""
    groups = probe.search(line)
    if groups is None:
        return None
    found = probe.read(groups)
    if isinstance(found, LogRecord):
        time_s = time_of(line) if found.time_s is None else found.time_s
        return replace(found, rank=rank, time_s=time_s)
    return found


def detect(block: bytes, dialects: Sequence[Dialect], *, has_returns: bool) -> Dialect | None:
    """The dialect that recognises most lines of the block; None where none recognises any."""
    best: tuple[int, int, Dialect] | None = None
    for dialect in dialects:
        hits = sum(_count(block, probe, has_returns=has_returns) for probe in dialect.steps)
        if hits and (best is None or (dialect.priority, hits) > best[:2]):
            best = (dialect.priority, hits, dialect)
    return best[2] if best is not None else None


def _count(block: bytes, probe: Probe, *, has_returns: bool) -> int:
    hits = 0
    for tried, (start, end) in enumerate(lines_with(block, probe.anchor, has_returns=has_returns)):
        if tried >= _DETECT_LINES:
            break
        hits += isinstance(read_line(*clean_line(block[start:end]), probe), LogRecord)
    return hits
