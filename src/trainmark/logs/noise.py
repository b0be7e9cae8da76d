"""Strip what launchers and terminals add to a line, and read the time it was printed."""

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
"""First characters of a rank tag, except for mpirun's, which follows a date."""
TIME = re.compile(rb"(?<!\d)(\d{4}[-/]\d\d[-/]\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
TIME_WITHIN = 160
"""A time stamp is expected within the first bytes of a line."""

_day_cache: dict[bytes, int | None] = {}


def clean_line(line: bytes) -> tuple[bytes, int | None]:
    """The line without colours, NULs and a launcher's tag, and the rank in that tag."""
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
    """Seconds since 1970, read as UTC; None if the line has no date."""
    found = TIME.search(line, 0, TIME_WITHIN)
    if found is None:
        return None
    day, hours, minutes, seconds, fraction = found.groups()
    days = days_of(day)
    if days is None:
        return None
    parts = float(b"." + fraction) if fraction else 0.0
    return days * 86400.0 + int(hours) * 3600 + int(minutes) * 60 + int(seconds) + parts


def days_of(text: bytes) -> int | None:
    if text not in _day_cache:
        if len(_day_cache) > 10_000:  # bounded, so that a log full of dates cannot fill the memory
            _day_cache.clear()
        try:
            _day_cache[text] = date(int(text[:4]), int(text[5:7]), int(text[8:10])).toordinal() - 719_163
        except ValueError:
            _day_cache[text] = None
    return _day_cache[text]


def decode(text: bytes) -> str:
    """As UTF-8, else as GBK, else with replacement characters. Never raises."""
    for encoding in ("utf-8", "gbk"):
        try:
            return text.decode(encoding)
        except UnicodeDecodeError:
            continue
    return text.decode("utf-8", errors="replace")
