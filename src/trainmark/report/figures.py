"""The charts of a report: which results are drawn, and in what words. How they are drawn is in `charts/`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainmark.analyse.laws import marks_of
from trainmark.analyse.scaling import Case, Study
from trainmark.analyse.table import Line
from trainmark.report.cells import format_ratio, say_devices, say_interval, say_relative, say_throughput, say_workload
from trainmark.report.charts.bars import Bar, draw_bars
from trainmark.report.charts.scaling import Loss, Point, draw_losses, draw_scaling
from trainmark.report.charts.svg import Chart
from trainmark.report.page_words import PAGE_WORDS
from trainmark.report.scaling import name_count, titles
from trainmark.report.seed_table import name_group
from trainmark.units import ABSENT, format_seconds, plain

_MOST_BARS = 24
_MOST_CHARTS = 12


@dataclass(frozen=True, kw_only=True)
class StudyFigure:
    study: Study
    title: str
    curve: Chart | None
    losses: Chart | None


def draw_throughput(lines: Sequence[Line], lang: str) -> list[Chart]:
    """One chart for each workload and unit, the fastest first; what has no number is left to the table."""
    words = PAGE_WORDS[lang]
    groups: dict[tuple[object, ...], list[Line]] = {}
    for line in lines:
        if line.known is not None:
            row = line.first
            groups.setdefault((row.workload or row.model or row.source, row.unit, row.size), []).append(line)
    charts = []
    for number, group in enumerate(list(groups.values())[:_MOST_CHARTS], start=1):
        ordered = sorted(group, key=lambda line: -_value(line))
        shown = ordered[:_MOST_BARS]
        name = say_workload(group[0], "en").split(" @ ")[0]
        more = words["more_bars"].format(num=len(shown), all=len(ordered)) if len(shown) < len(ordered) else ""
        precisions = list(dict.fromkeys(line.first.precision for line in group))
        charts.append(
            draw_bars(
                [_bar(line, lang, precisions.index(line.first.precision)) for line in shown],
                name=f"throughput-{number}",
                title=plain(f"{words['throughput_title']}: {name}{f' ({more})' if more else ''}"),
                description=words["throughput_text"].format(num=len(shown)),
                header=(words["configuration"], words["throughput_title"]),
            )
        )
    return charts


def _value(line: Line) -> float:
    return line.known.value if line.known is not None else 0.0


def _bar(line: Line, lang: str, place: int) -> Bar:
    assert line.known is not None
    sign = " !" if any(marks_of(run) for run in line.runs) else ""
    speed, relative = say_throughput(line, lang).replace("!", ""), say_relative(line, lang)
    name = label(line)
    return Bar(
        label=name,
        value=line.known.value,
        interval=line.known.ci95,
        words=plain(f"{speed}{sign}{_beside(relative)}"),
        tip=plain(f"{name}: {speed}, {say_interval(line, lang)}"),
        place=place,
    )


def _beside(relative: str) -> str:
    """±0.42%, or why there is no interval"""
    if relative == ABSENT:
        return ""
    return f" {relative}" if relative.startswith("±") else f" ({relative})"


def label(line: Line) -> str:
    """torch reference fp32, 1 × 2 CPU, batch 8, synthetic @ torch 2.11: a configuration without its workload."""
    _, _, rest = name_group(line).partition(", ")
    devices = say_devices(line, "en")
    where = f"{devices}, " if devices != ABSENT else ""
    variant = f" @ {line.variant}" if line.variant else ""
    return plain(f"{where}{rest or line.first.dialect or ''}{variant}".strip().strip(",")) or ABSENT


# -- scaling -----------------------------------------------------------------------------------------------------------


def draw_studies(studies: Sequence[Study], lang: str) -> list[StudyFigure]:
    names = titles(studies, lang)
    return [
        _draw_study(study, title, number, lang)
        for number, (study, title) in enumerate(zip(studies, names, strict=True), start=1)
    ]


def _draw_study(study: Study, title: str, number: int, lang: str) -> StudyFigure:
    words = PAGE_WORDS[lang]
    base = study.baseline.devices
    measured = [case for case in study.cases if case.speedup is not None]
    if not measured or number > _MOST_CHARTS:
        return StudyFigure(study=study, title=title, curve=None, losses=None)
    points = [Point(devices=base, speedup=1.0, interval=None, tip=f"{base}: 1")]
    points += [_point(case) for case in measured if case.devices != base]
    curve = draw_scaling(
        points,
        base=base,
        name=f"scaling-{number}",
        title=plain(f"{words['scaling_title']}: {title}"),
        caption=words["scaling_title"],
        description="; ".join(point.tip for point in points),
        words={name: words[name] for name in ("devices", "speedup", "ideal")},
    )
    split = [loss for case in measured if (loss := _loss(case, words)) is not None]
    losses = None
    if split:
        losses = draw_losses(
            split,
            [words[name] for name in ("communication", "compute", "rest")],
            name=f"lost-{number}",
            title=plain(f"{words['lost_title']}: {title}"),
            caption=words["lost_title"],
            description="; ".join(f"{loss.label}: {', '.join(loss.words)}" for loss in split),
        )
    return StudyFigure(study=study, title=title, curve=curve, losses=losses)


def _point(case: Case) -> Point:
    assert case.speedup is not None
    tip = (
        f"{name_count(case)}: {format_ratio(case.speedup, '', sign_after='')}, "
        f"{format_ratio(case.efficiency, '%', sign_after='')}"
    )
    return Point(devices=case.devices, speedup=case.speedup.value, interval=case.speedup.ci95, tip=tip)


def _loss(case: Case, words: dict[str, str]) -> Loss | None:
    split = case.lost_time.split if case.lost_time is not None else None
    if split is None:
        return None
    parts = (split.communication_s, split.compute_s, split.rest_s)
    named = [
        f"{words[name]} {format_seconds(part) if part >= 0 else '−' + format_seconds(-part)}"
        for name, part in zip(("communication", "compute", "rest"), parts, strict=True)
    ]
    return Loss(label=f"{name_count(case)}", parts=parts, words=tuple(named))
