"""Strip what launchers and terminals add to a line, and read the time it was printed."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

_ANSI = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,1000}(?:\x07|\x1b\\)?|[@-Z\\-_])")
_RANK = re.compile(
    rb"^(?:\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})?\[\d+,(\d+)\]<std(?:out|err|diag)>:"
    rb"|^\[(?:rank|default)(\d+)\]:"
    rb"|^(\d{1,5}): (?=\S)"
)
_TAGGED = (b"[rank", b"[default", *(str(digit).encode() for digit in range(10)))
"""First characters of a rank tag, except for mpirun's, which follows a date."""
_CLOCK_TIME = rb"(?P<hours>\d\d):(?P<minutes>\d\d):(?P<seconds_of_minute>\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
TIME = re.compile(
    rb"(?<![\d.:])(?:(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[ T]"
    rb"|(?P<us_month>\d\d)/(?P<us_day>\d\d)/(?P<us_year>\d{4}) "  # Hugging Face: 01/31/2024 10:00:00
    rb"|(?<=\[)(?P<short_month>\d\d)/(?P<short_day>\d\d) "  # Detectron2: [01/31 10:00:00 d2.utils.events]
    rb"|(?<=^[IWE])(?P<glog_month>\d\d)(?P<glog_day>\d\d) "  # glog: I0131 10:00:00.123456
    rb"|(?<=^\[)(?=\d\d:\d\d:\d\d\.\d))" + _CLOCK_TIME  # MAE: [10:00:00.123456]
)
TIME_WITHIN = 160
"""A time stamp is expected within the first bytes of a line."""
_LEAP_YEAR = 1972
FIRST_KNOWN_S = 2 * 365 * 86400 + 366 * 86400.0
"""Earlier times come from stamps without a year."""


def clean_line(line: bytes) -> tuple[bytes, int | None]:
    """The line without colours, NULs, backspaces and a launcher's tag, and the rank in that tag."""
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    if b"\x00" in line or b"\x08" in line:
        line = line.translate(None, b"\x00\x08")
    if not line.startswith(_TAGGED) and b"]<std" not in line[:60]:
        return line, None
    tag = _RANK.match(line)
    if tag is None:
        return line, None
    rank = tag[1] or tag[2] or tag[3]
    return line[tag.end() :], int(rank[:9])


def time_of(line: bytes) -> float | None:
    """Seconds since 1970, read as UTC; None if the line has no time stamp.

    A stamp without a year counts from 1972, one without a date from 1970: only differences are meaningful.
    """
    found = TIME.search(line, 0, TIME_WITHIN)
    if found is None:
        return None
    year, month, day = _date(found)
    days = days_of(year, month, day)
    if days is None:
        return None
    parts = float(b"." + found["fraction"]) if found["fraction"] else 0.0
    hours, minutes, seconds = int(found["hours"]), int(found["minutes"]), int(found["seconds_of_minute"])
    return days * 86400.0 + hours * 3600 + minutes * 60 + seconds + parts


def _date(found: re.Match[bytes]) -> tuple[int, int, int]:
    if found["year"] is not None:
        return int(found["year"]), int(found["month"]), int(found["day"])
    if found["us_year"] is not None:
        return int(found["us_year"]), int(found["us_month"]), int(found["us_day"])
    for kind in ("short", "glog"):
        if found[f"{kind}_month"] is not None:
            return _LEAP_YEAR, int(found[f"{kind}_month"]), int(found[f"{kind}_day"])
    return 1970, 1, 1


@lru_cache(maxsize=1000)
def days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970; None if there is no such day."""
    try:
        return date(year, month, day).toordinal() - 719_163
    except ValueError:
        return None


def decode(text: bytes) -> str:
    """As UTF-8, else as GBK, else with replacement characters. Never raises."""
    for encoding in ("utf-8", "gbk"):
        try:
            return text.decode(encoding)
        except UnicodeDecodeError:
            continue
    return text.decode("utf-8", errors="replace")
