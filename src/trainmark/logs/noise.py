"""What launchers and terminals put around a line, and the time it was printed at."""

from __future__ import annotations

import re
from datetime import date

_ANSI = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,1000}(?:\x07|\x1b\\)?|[@-Z\\-_])")
_RANK = re.compile(
    rb"^(?:\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})?\[\d+,(\d+)\]<std(?:out|err|diag)>:"
    rb"|^\[(?:rank|default)(\d+)\]:"
    rb"|^(\d{1,5}): (?=\S)"
)
_TAGGED = (b"[rank", b"[default", *(str(digit).encode() for digit in range(10)))
"""What a tag may begin with, but for mpirun's, which has a date before it."""
_TIME = re.compile(rb"(?<!\d)(\d{4}[-/]\d\d[-/]\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_TIME_WITHIN = 160
"""Only the beginning of a line tells when it was printed."""

_day_cache: dict[bytes, int | None] = {}


def clean_line(line: bytes) -> tuple[bytes, int | None]:
    """Without colours, NULs and a launcher's tag; and the rank that the tag names."""
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    if b"\x00" in line:
        line = line.replace(b"\x00", b"")
    if not line.startswith(_TAGGED) and b"]<std" not in line[:60]:
        return line, None
    tag = _RANK.match(line)
    if tag is None:
        return line, None
    rank = tag[1] or tag[2] or tag[3]
    return line[tag.end() :], int(rank[:9])


def time_of(line: bytes) -> float | None:
    """Seconds since 1970 as if the clock showed UTC; None where the line has no date."""
    found = _TIME.search(line, 0, _TIME_WITHIN)
    if found is None:
        return None
    day, hours, minutes, seconds, fraction = found.groups()
    days = _days(day)
    if days is None:
        return None
    parts = float(b"." + fraction) if fraction else 0.0
    return days * 86400.0 + int(hours) * 3600 + int(minutes) * 60 + int(seconds) + parts


def _days(text: bytes) -> int | None:
    if text not in _day_cache:
        if len(_day_cache) > 10_000:  # a log of nothing but dates must not fill the memory
            _day_cache.clear()
        try:
            _day_cache[text] = date(int(text[:4]), int(text[5:7]), int(text[8:10])).toordinal() - 719_163
        except ValueError:
            _day_cache[text] = None
    return _day_cache[text]


def decode(text: bytes) -> str:
    """UTF-8 where it is, else GBK where it is, else with replacement marks: a name must never stop a reader."""
    for encoding in ("utf-8", "gbk"):
        try:
            return text.decode(encoding)
        except UnicodeDecodeError:
            continue
    return text.decode("utf-8", errors="replace")
