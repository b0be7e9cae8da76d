"""Speed-up against the number of devices, beside the ideal; and what a step loses time to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainmark.report.charts.axis import Scale, labels, round_ticks
from trainmark.report.charts.svg import Chart, circle, line, path, rect, text

_WIDTH, _HEIGHT = 440, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 16, 20, 44


@dataclass(frozen=True, kw_only=True)
class Point:
    devices: int
    speedup: float
    interval: tuple[float, float] | None
    tip: str


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The parts of one step's lost time, in seconds; a negative part is not drawn."""

    label: str
    parts: tuple[float, ...]
    words: tuple[str, ...]


def draw_scaling(
    points: Sequence[Point], *, base: int, name: str, title: str, caption: str, description: str, words: dict[str, str]
) -> Chart:
    most = max(point.devices for point in points)
    top = max(most / base, *(point.interval[1] if point.interval else point.speedup for point in points))
    # By factors in both directions, where ideal is a straight line too; else many devices would hide the few.
    is_log = most > 4 * base
    lowest = min(1.0, *(point.interval[0] if point.interval else point.speedup for point in points))
    across = Scale(low=base, high=most, begin=_LEFT + 10, end=_WIDTH - _RIGHT - 8, is_log=is_log)
    up = Scale(
        low=lowest * 0.85 if is_log else 0.0,
        high=top * (1.2 if is_log else 1.05),
        begin=_HEIGHT - _BOTTOM,
        end=_TOP,
        is_log=is_log,
    )
    parts = _axes(points, across, up, base, words)
    ends = (across(base), up(1.0), across(most), up(most / base))
    parts.append(path(f"M{ends[0]:.1f} {ends[1]:.1f}L{ends[2]:.1f} {ends[3]:.1f}", "ideal", tip=words["ideal"]))
    parts.append(text(words["ideal"], (ends[0] + ends[2]) / 2 - 8, (ends[1] + ends[3]) / 2 - 8, "s", anchor="end"))
    ordered = sorted(points, key=lambda point: point.devices)
    parts.append(path("M" + "L".join(f"{across(one.devices):.1f} {up(one.speedup):.1f}" for one in ordered), "l0"))
    for point in ordered:
        x = across(point.devices)
        if point.interval is not None:
            low, high = (up(bound) for bound in point.interval)
            parts.append(
                path(f"M{x - 4:.1f} {low:.1f}h8M{x:.1f} {low:.1f}V{high:.1f}M{x - 4:.1f} {high:.1f}h8", "whisker")
            )
        parts.append(circle(x, up(point.speedup), 4.5, "f0", tip=point.tip))
    return Chart(
        name=name, title=title, caption=caption, description=description, width=_WIDTH, height=_HEIGHT,
        body="".join(parts), is_labelled=True, header=(words["devices"], words["speedup"]),
        rows=tuple((str(one.devices), one.tip) for one in ordered),
    )  # fmt: skip


def _axes(points: Sequence[Point], across: Scale, up: Scale, base: int, words: dict[str, str]) -> list[str]:
    parts = [text(words["speedup"], 4, 11, "s")]
    ticks = round_ticks(0.0, up.high, most=5)
    if up.is_log:
        ticks = sorted({point.devices / base for point in points})
    for value, label in zip(ticks, labels(ticks), strict=True):
        parts.append(line(_LEFT, up(value), _WIDTH - _RIGHT, up(value), "grid"))
        parts.append(text(label, _LEFT - 6, up(value) + 4, "s", anchor="end"))
    last = -100.0
    for devices in sorted({point.devices for point in points}):
        x = across(devices)
        if x - last > 20:
            parts.append(text(str(devices), x, _HEIGHT - _BOTTOM + 18, "s", anchor="middle"))
            last = x
    parts.append(line(_LEFT, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM, "axis"))
    parts.append(text(words["devices"], (_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "s", anchor="middle"))
    return parts


def draw_losses(
    losses: Sequence[Loss], legend: Sequence[str], *, name: str, title: str, caption: str, description: str
) -> Chart:
    """One bar for each count: how its lost time divides among the causes of the legend."""
    row, top = 44, 34
    height = top + row * len(losses)
    parts = []
    x = 4.0
    for place, words in enumerate(legend):
        parts += [rect(x, 6, 12, 12, f"f{place}", radius=2), text(words, x + 18, 16.5, "s")]
        x += 34 + 13 * sum(1 if ord(letter) > 0x2E7F else 0.52 for letter in words)
    for at, loss in enumerate(losses):
        y = top + at * row
        parts.append(text(loss.label, 4, y + 13))
        total = sum(max(0.0, part) for part in loss.parts) or 1.0
        x = 4.0
        for place, (part, words) in enumerate(zip(loss.parts, loss.words, strict=True)):
            width = max(0.0, part) / total * (_WIDTH - 8)
            if width > 0.4:
                parts.append(rect(x, y + 19, width, 14, f"f{place}", tip=words))
            x += width
    rows = tuple((loss.label, *loss.words) for loss in losses)
    return Chart(
        name=name, title=title, caption=caption, description=description, width=_WIDTH, height=height,
        body="".join(parts), header=("", *legend), rows=rows,
    )  # fmt: skip
