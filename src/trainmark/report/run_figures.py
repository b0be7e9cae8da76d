"""The charts of one run: its step times, what it learned, and what the machine did meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.step_shape import StepShape, find_step_shape
from trainmark.analyse.table import Line
from trainmark.report.charts.series import Frame, Marks, Series, draw_series
from trainmark.report.charts.svg import Chart, tag
from trainmark.report.charts.thinning import thin
from trainmark.report.figures import label
from trainmark.report.page_words import PAGE_WORDS
from trainmark.report.story import fastest_lines
from trainmark.store.rows import TELEMETRY, RunRow
from trainmark.units import format_number, format_seconds, plain

Floats = NDArray[np.float64]

_MOST_RUNS = 12
_MANY_STEPS = 8
"""With more runs to draw, each gets fewer points, so that the page stays small."""
_CLIP = 1.25
"""Times the median, and what the usual steps need: a longer step is drawn at the upper edge."""
_MACHINE = (
    ("gpu_power_w", "power", 1.0, 1),
    ("gpu_sm_mhz", "clock", 1.0, 2),
    ("gpu_memory_used_bytes", "gpu_memory", 2.0**-30, 3),
    ("gpu_temperature_c", "temperature", 1.0, 4),
    ("process_cores", "cores", 1.0, 5),
    ("process_rss_bytes", "process_memory", 2.0**-30, 0),
)
"""Column of the telemetry, word, factor and colour."""
_MOST_MACHINE = 3


@dataclass(frozen=True, kw_only=True)
class RunFigure:
    run: RunRow
    title: str
    steps: Chart | None
    others: tuple[Chart, ...]
    """Loss, metrics, power, clocks, memory."""


def draw_runs(lines: Sequence[Line], lang: str) -> tuple[list[RunFigure], int]:
    """The fastest of each workload first; and how many configurations are not drawn."""
    first = fastest_lines(lines)
    ordered = [*first, *(line for line in lines if line not in first)]
    found: list[RunFigure] = []
    num_left = 0
    for line in ordered:
        run = (
            next((run for run in line.runs if run.outcome == "ok" and len(run.seconds) > 1), None)
            if (len(found) < _MOST_RUNS)
            else None
        )
        if run is None:
            num_left += line.num_ok > 0
            continue
        columns = 900 if len(ordered) <= _MANY_STEPS else 450
        found.append(_draw_run(line, run, len(found) + 1, columns, lang))
    return found, num_left


def _draw_run(line: Line, run: RunRow, number: int, columns: int, lang: str) -> RunFigure:
    name = (run.workload or run.model or run.source).rsplit("/", 1)[-1]
    title = plain(f"{name} · {label(line)}")
    steps = _draw_steps(run, title, number, columns, lang)
    others = [*_draw_training(run, title, number, columns // 2, lang), *_draw_machine(run, title, number, lang)]
    return RunFigure(run=run, title=title, steps=steps, others=tuple(others))


# -- steps -------------------------------------------------------------------------------------------------------------


def _draw_steps(run: RunRow, title: str, number: int, columns: int, lang: str) -> Chart | None:
    words = PAGE_WORDS[lang]
    milliseconds = 1000 * run.seconds
    shape = find_step_shape(run)
    numbers = _numbers(run)
    usual = milliseconds[shape.is_steady] if shape.is_steady.any() else milliseconds
    median, p95 = (float(np.quantile(usual, share)) for share in (0.5, 0.95))
    clip = max(_CLIP * median, 1.1 * float(np.quantile(usual, 0.995)))
    is_clipped = bool((milliseconds > clip).any())
    stated = (
        ("smallest", float(usual.min())),
        ("median", median),
        ("p95", p95),
        ("largest", float(milliseconds.max())),
    )
    summary = tuple((words[name], f"{format_number(value)} ms") for name, value in stated)
    description = ", ".join(f"{name} {value}" for name, value in summary)
    is_log = run.dialect is not None
    frame = Frame(
        name=f"steps-{number}", title=f"{words['shape']}: {title}", caption=words["shape"],
        description=f"{description}{'; ' + words['clipped'] if is_clipped else ''}",
        across=words["record" if is_log else "step"], up=words["step_time"], columns=columns, clip=clip,
        rows=summary, header=(words["step_time"], words["value"]), marks=_mark_steps(run, shape, numbers, words),
    )  # fmt: skip
    return draw_series([Series(label=title, x=numbers, y=milliseconds)], frame)


def _numbers(run: RunRow) -> Floats:
    """The numbers of the steps, or their places where a log does not tell or starts again."""
    known = run.steps
    if len(known) != len(run.seconds) or not np.isfinite(known).all() or (np.diff(known) <= 0).any():
        return np.arange(1.0, len(run.seconds) + 1)
    return known


def _mark_steps(run: RunRow, shape: StepShape, numbers: Floats, words: dict[str, str]) -> Marks:
    bands = []
    warm = ~shape.is_steady
    edges = np.flatnonzero(np.diff(np.concatenate(([0], warm.astype(int), [0]))))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        bands.append(
            (
                float(numbers[begin]) - 0.5,
                float(numbers[end - 1]) + 0.5,
                "warm",
                words["warmup"].format(num=end - begin),
            )
        )
    places = [
        (float(step), "paused", words["pause"].format(seconds=format_seconds(seconds)))
        for step, _, seconds in run.paused.tolist()
        if math.isfinite(step)
    ]
    places += [
        (float(numbers[place]), "change", words["stall"].format(seconds=format_seconds(float(run.seconds[place]))))
        for place in shape.stalls
    ]
    levels = [
        (float(numbers[level.begin]), float(numbers[level.end - 1]), 1000 * level.seconds) for level in shape.levels
    ]
    return Marks(bands=bands, places=places[:200], steps=levels)


def draw_sparkline(run: RunRow) -> str:
    """A small picture for a table cell: the steady step times, without axes."""
    width, height, columns = 96, 22, 40
    seconds = run.seconds
    if len(seconds) < 4:
        return ""
    low, high = (float(np.quantile(seconds, share)) for share in (0.0, 0.98))
    x, y = thin(np.arange(float(len(seconds))), np.clip(seconds, low, high), columns)
    span = (high - low) or 1.0
    points = " ".join(
        f"{round(at / (len(seconds) - 1) * width)},{round(height - 2 - (value - low) / span * (height - 4))}"
        for at, value in zip(x.tolist(), y.tolist(), strict=True)
    )
    box = {"class": "spark", "viewBox": f"0 0 {width} {height}", "aria-hidden": "true"}
    return tag("svg", box, tag("polyline", {"points": points}))


# -- training ----------------------------------------------------------------------------------------------------------


def _draw_training(run: RunRow, title: str, number: int, columns: int, lang: str) -> list[Chart]:
    words = PAGE_WORDS[lang]
    charts = []
    if len(run.losses) > 1 and (run.epochs is not None or run.dialect is not None):
        times, across = _loss_times(run, words)
        known = run.losses[np.isfinite(run.losses)]
        rows = (
            tuple(
                (words[name], format_number(value))
                for name, value in (("first", known[0]), ("lowest", known.min()), ("last", known[-1]))
            )
            if len(known)
            else ()
        )
        charts.append(
            draw_series(
                [Series(label=words["loss"], x=times, y=run.losses, place=1)],
                Frame(
                    name=f"loss-{number}",
                    caption=words["loss"],
                    title=f"{words['loss']}: {title}",
                    description=", ".join(" ".join(row) for row in rows),
                    across=across,
                    up=words["loss"],
                    width=440,
                    height=210,
                    columns=columns,
                    rows=rows,
                    header=(words["loss"], words["value"]),
                ),
            )
        )
    return [*charts, *_draw_metrics(run, title, number, words)]


def _loss_times(run: RunRow, words: dict[str, str]) -> tuple[Floats, str]:
    """Seconds since the first step, pauses included; the number of the step where times are not known."""
    numbers, times = run.steps, run.times
    is_known = len(numbers) > 1 and np.isfinite(times).all() and (np.diff(numbers) > 0).all() and times.max() > 0
    if not is_known or len(run.loss_steps) != len(run.losses):
        return run.loss_steps, words["step"]
    at = np.interp(run.loss_steps, numbers, times)
    for step, _, seconds in run.paused.tolist():
        at = at + np.where(run.loss_steps > step, seconds, 0.0)
    return at, words["time_s"]


def _draw_metrics(run: RunRow, title: str, number: int, words: dict[str, str]) -> list[Chart]:
    """Evaluations of each metric over time, with the target as a line; by epoch or step where times are not known."""
    names = list(dict.fromkeys(str(found["metric"]) for found in run.evals if found.get("metric")))[:2]
    charts = []
    for place, name in enumerate(names):
        own = [found for found in run.evals if found.get("metric") == name and found.get("value") is not None]
        key, across = next(
            ((key, words[word]) for key, word in (("time_s", "time_s"), ("step", "step"))
             if all(found.get(key) is not None for found in own)),
            (None, words["record"]),
        )  # fmt: skip
        if len(own) < 2:
            continue
        x = np.array([float(found[key]) if key else float(index) for index, found in enumerate(own)])
        y = np.array([float(found["value"]) for found in own])
        target = run.until_target.get(name)
        marks = Marks(targets=[(target, words["target"].format(value=f"{target:g}"))] if target is not None else [])
        rows = tuple((f"{a:.4g}", f"{b:.4g}") for a, b in zip(x.tolist(), y.tolist(), strict=True))[-60:]
        charts.append(
            draw_series(
                [Series(label=name, x=x, y=y, place=2 + place, has_dots=True)],
                Frame(
                    name=f"metric-{number}-{place}",
                    caption=plain(name),
                    title=plain(f"{name}: {title}"),
                    description=plain(f"{name}: {y[0]:.4g} … {y[-1]:.4g}"),
                    across=across,
                    up=plain(name),
                    width=440,
                    height=210,
                    rows=rows,
                    header=(across, plain(name)),
                    marks=marks,
                ),
            )
        )
    return charts


# -- the machine -------------------------------------------------------------------------------------------------------


def _draw_machine(run: RunRow, title: str, number: int, lang: str) -> list[Chart]:
    words, samples = PAGE_WORDS[lang], run.telemetry
    if len(samples) < 3:
        return []
    times = samples[:, 0] - samples[0, 0]
    charts: list[Chart] = []
    for column, word, factor, place in _MACHINE:
        values = samples[:, TELEMETRY.index(column)] * factor
        if int(np.isfinite(values).sum()) < 3 or len(charts) == _MOST_MACHINE:
            continue
        rows = tuple(
            (words[name], format_number(float(value)))
            for name, value in (("lowest", np.nanmin(values)), ("mean", np.nanmean(values)),
                                ("largest", np.nanmax(values)))
        )  # fmt: skip
        frame = Frame(
            name=f"{column.replace('_', '-')}-{number}", title=f"{words[word]}: {title}", caption=words[word],
            description=", ".join(" ".join(row) for row in rows), across=words["time_s"], up=words[word], width=320,
            height=180, columns=220, rows=rows, header=(words[word], words["value"]), is_from_zero=True,
            marks=_mark_measuring(run, samples, words),
        )  # fmt: skip
        charts.append(draw_series([Series(label=words[word], x=times, y=values, place=place)], frame))
    return charts


def _mark_measuring(run: RunRow, samples: Floats, words: dict[str, str]) -> Marks:
    """Before the first step was recorded."""
    stamps = run.stamps[np.isfinite(run.stamps)]
    if not len(stamps):
        return Marks()
    begin = float(stamps[0] - samples[0, 0])
    return Marks(bands=[(0.0, begin, "warm", words["setup"])] if begin > 0 else [])
