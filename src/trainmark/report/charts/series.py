"""Series over steps or time: step durations with warm-up, pauses and levels marked; losses, metrics, power, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trainmark.report.charts.axis import Scale, labels, padded, round_ticks
from trainmark.report.charts.svg import Chart, circle, line, path, rect, tag, text
from trainmark.report.charts.thinning import trace

Floats = NDArray[np.float64]

_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 14, 16, 36


@dataclass(frozen=True, kw_only=True)
class Series:
    label: str
    x: Floats
    y: Floats
    place: int = 0
    """Of its colour."""
    has_dots: bool = False
    """Few points that stand for themselves, such as evaluations."""


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Beside the values: ranges and places on the horizontal axis, and values on the vertical one."""

    bands: Sequence[tuple[float, float, str, str]] = ()
    """Begin, end, class and words."""
    places: Sequence[tuple[float, str, str]] = ()
    """Where, class and words."""
    steps: Sequence[tuple[float, float, float]] = ()
    """Begin, end and value of a level."""
    targets: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True, kw_only=True)
class Frame:
    name: str
    title: str
    description: str
    across: str
    """What the horizontal axis counts."""
    up: str
    caption: str = ""
    width: int = 900
    height: int = 230
    columns: int = 900
    is_from_zero: bool = False
    rows: tuple[tuple[str, ...], ...] = ()
    header: tuple[str, ...] = ()
    clip: float | None = None
    """Values above are drawn at the upper edge: one compilation of a minute would flatten everything else."""
    is_zoomable: bool = True
    marks: Marks = field(default_factory=Marks)


def draw_series(series: Sequence[Series], frame: Frame) -> Chart:
    low_x, high_x = _range([one.x for one in series])
    low_y, high_y = _range([one.y for one in series], [value for value, _ in frame.marks.targets])
    if frame.clip is not None:
        high_y = min(high_y, frame.clip)
    low_y, high_y = padded(0.0 if frame.is_from_zero else low_y, high_y)
    bottom, right = frame.height - _BOTTOM, frame.width - _RIGHT
    across = Scale(low=low_x, high=high_x, begin=_LEFT, end=right)
    up = Scale(low=low_y, high=high_y, begin=bottom, end=_TOP)
    plot = [*_bands(frame, across, up), *_lines(series, frame, across, up), *_levels(frame, across, up)]
    inside = {"x": _LEFT, "y": _TOP, "width": right - _LEFT, "height": bottom - _TOP}
    view = {**inside, "viewBox": f"{_LEFT} {_TOP} {right - _LEFT} {bottom - _TOP}", "preserveAspectRatio": "none"}
    body = [
        *_up_axis(up, right),
        tag("svg", {**view, "class": "plot"}, *plot),
        *_across_axis(frame, across, bottom, right),
        *_legend(series, frame),
        *_targets(frame, up, right),
    ]
    zoom: dict[str, float | str] = {}
    if frame.is_zoomable:
        zoom = {"low": low_x, "high": high_x, "left": float(_LEFT), "right": float(right), "unit": frame.across}
    return Chart(
        name=frame.name, title=frame.title, description=frame.description, width=frame.width, height=frame.height,
        body="".join(body), caption=frame.caption, is_labelled=True, header=frame.header, rows=frame.rows, zoom=zoom,
    )  # fmt: skip


def _range(arrays: Sequence[Floats], more: Sequence[float] = ()) -> tuple[float, float]:
    known = [array[np.isfinite(array)] for array in arrays]
    values = [bound for array in known if len(array) for bound in (float(array.min()), float(array.max()))]
    return min([*values, *more], default=0.0), max([*values, *more], default=1.0)


def _up_axis(up: Scale, right: float) -> list[str]:
    ticks = round_ticks(up.low, up.high, most=4)
    parts = []
    for value, words in zip(ticks, labels(ticks), strict=True):
        parts.append(line(_LEFT, up(value), right, up(value), "grid"))
        parts.append(text(words, _LEFT - 6, up(value) + 4, "s", anchor="end"))
    return parts


def _across_axis(frame: Frame, across: Scale, bottom: float, right: float) -> list[str]:
    ticks = round_ticks(across.low, across.high, most=6)
    at = [
        text(words, across(value), bottom + 16, "s tick", anchor="middle")
        for value, words in zip(ticks, labels(ticks), strict=True)
    ]
    axis = line(_LEFT, bottom, right, bottom, "axis")
    return [axis, tag("g", {"class": "ticks"}, *at), text(frame.across, right, bottom + 31, "s", anchor="end")]


def _legend(series: Sequence[Series], frame: Frame) -> list[str]:
    """The quantity above the axis, and the names of the lines where there are several."""
    parts = [text(frame.up, 4, 11, "s")]
    if len(series) < 2:
        return parts
    x = float(frame.width - _RIGHT)
    for one in reversed(series):
        wide = 13 * sum(1 if ord(letter) > 0x2E7F else 0.53 for letter in one.label)
        parts.append(text(one.label, x, 11, "s", anchor="end"))
        parts.append(line(x - wide - 22, 7, x - wide - 6, 7, f"l{one.place % 6}"))
        x -= wide + 36
    return parts


def _lines(series: Sequence[Series], frame: Frame, across: Scale, up: Scale) -> list[str]:
    parts = []
    for one in series:
        y = np.minimum(one.y, up.high) if frame.clip is not None else one.y
        thin = " thin" if len(one.x) > 300 else ""
        parts.append(path(trace(one.x, y, across, up, columns=frame.columns), f"l{one.place % 6}{thin}"))
        if one.has_dots and len(one.x) <= 200:
            parts += [
                circle(across(a), up(b), 3, f"f{one.place % 6}", tip=f"{one.label} {b:.4g} ({frame.across} {a:.4g})")
                for a, b in zip(one.x.tolist(), one.y.tolist(), strict=True)
            ]
    return parts


def _bands(frame: Frame, across: Scale, up: Scale) -> list[str]:
    parts = []
    for begin, end, kind, words in frame.marks.bands:
        x1, x2 = across(max(begin, across.low)), across(min(end, across.high))
        parts.append(rect(x1, up.end, max(1.0, x2 - x1), up.begin - up.end, kind, tip=words))
    for at, kind, words in frame.marks.places:
        x = across(at)
        parts.append(path(f"M{x:.1f} {up.end:.1f}V{up.begin:.1f}", kind, tip=words))
    return parts


def _levels(frame: Frame, across: Scale, up: Scale) -> list[str]:
    return [
        path(f"M{across(begin):.1f} {up(value):.1f}H{across(end):.1f}", "level", tip=f"{value:.4g}")
        for begin, end, value in frame.marks.steps
    ]


def _targets(frame: Frame, up: Scale, right: float) -> list[str]:
    parts = []
    for value, words in frame.marks.targets:
        parts.append(line(_LEFT, up(value), right, up(value), "target"))
        parts.append(text(words, right - 4, up(value) - 5, "s", anchor="end"))
    return parts
