"""Horizontal bars with interval whiskers: one bar per configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from trainmark.report.charts.axis import Scale, labels, round_ticks
from trainmark.report.charts.svg import Chart, line, path, rect, tag, text
from trainmark.units import plain

_WIDTH = 900
_ROW = 46
_TOP = 10
_RIGHT = 30
_LEFT = 4


@dataclass(frozen=True, kw_only=True)
class Bar:
    label: str
    value: float
    interval: tuple[float, float] | None
    words: str
    """Value, unit and ±, above the bar."""
    tip: str
    place: int = 0
    """Of its colour."""


def draw_bars(bars: Sequence[Bar], *, name: str, title: str, description: str, header: tuple[str, str]) -> Chart:
    """Number and label above each bar, so that long names have room and a narrow screen shows the number first."""
    height = _TOP + _ROW * len(bars) + 26
    most = max(max(bar.value, bar.interval[1] if bar.interval else 0.0) for bar in bars)
    across = Scale(low=0.0, high=most, begin=_LEFT, end=_WIDTH - _RIGHT)
    ticks = round_ticks(0.0, most, most=5)
    bottom = height - 22
    parts = [line(across(value), _TOP, across(value), bottom, "grid") for value in ticks]
    parts += [
        text(words, across(value), height - 6, "s", anchor="middle" if value else "start")
        for value, words in zip(ticks, labels(ticks), strict=True)
    ]
    for place, bar in enumerate(bars):
        parts += _draw(bar, _TOP + place * _ROW, across)
    return Chart(
        name=name, title=title, description=description, width=_WIDTH, height=height, body="".join(parts),
        header=header, rows=tuple((bar.label, bar.words) for bar in bars),
    )  # fmt: skip


def _draw(bar: Bar, top: float, across: Scale) -> list[str]:
    middle = top + 30
    parts = [
        _name(bar, top + 15),
        rect(_LEFT, middle - 8, max(1.5, across(bar.value) - _LEFT), 16, f"f{bar.place % 6}", tip=bar.tip, radius=2),
    ]
    if bar.interval is not None:
        low, high = (across(bound) for bound in bar.interval)
        whisker = (
            f"M{low:.1f} {middle - 5}V{middle + 5}M{low:.1f} {middle}H{high:.1f}M{high:.1f} {middle - 5}V{middle + 5}"
        )
        parts.append(path(whisker, "whisker", tip=bar.tip))
    return parts


def _name(bar: Bar, y: float) -> str:
    number = tag("tspan", {"class": "b"}, escape(plain(bar.words)))
    return tag("text", {"x": float(_LEFT), "y": y, "class": "t"}, f"{number}\u2002{escape(plain(bar.label))}")
