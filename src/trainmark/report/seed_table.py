"""Results as the published reports have them: devices, Time2Train, throughput, accuracy, speed-up."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.analyse.table import Line
from trainmark.analyse.training import time_to_train
from trainmark.report.cells import say_data, say_devices, say_speedup, say_throughput, say_unit, say_workload
from trainmark.report.contents import Table
from trainmark.report.page_words import PAGE_WORDS
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_number, format_plus_minus, plain


def seed_tables(lines: Sequence[Line], lang: str) -> list[Table]:
    """One table for each workload, framework, recipe, precision, batch and data; its rows are numbers of devices."""
    groups: dict[tuple[object, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(_kind(line), []).append(line)
    return [_build(group, lang) for group in groups.values()]


def _kind(line: Line) -> tuple[object, ...]:
    row = line.first
    return (row.workload or row.model or row.source, row.framework, row.recipe, row.precision, row.size, row.device,
            row.data, row.epochs, row.unit)  # fmt: skip


def _build(group: Sequence[Line], lang: str) -> Table:
    words, unit = PAGE_WORDS[lang], say_unit(group[0].first.unit, lang)
    batches = {line.first.batch_size_per_device for line in group}
    variants = any(line.variant for line in group)
    header = [
        words["devices"],
        words["time_to_train"],
        words["throughput"].format(unit=unit),
        words["accuracy"],
        words["speedup"],
    ]
    rows = []
    for line in sorted(group, key=lambda line: (line.first.devices or 0, line.first.batch_size_per_device or 0)):
        devices = say_devices(line, lang)
        notes = [f"batch {line.first.batch_size_per_device}"] if len(batches) > 1 else []
        notes += [line.variant] if variants and line.variant else []
        cells = (
            f"{devices} ({', '.join(notes)})" if notes else devices,
            say_time_to_train(line),
            _say_speed(line, lang, unit),
            say_accuracy(line),
            say_speedup(line, lang),
        )
        rows.append([plain(cell) for cell in cells])
    return Table(header=header, rows=rows, title=name_group(group[0], batches), numbers=frozenset({1, 2, 3, 4}))


def name_group(line: Line, batches: set[int | None] | None = None) -> str:
    """resnet50, torch reference amp, batch 128, synthetic"""
    row = line.first
    parts = [say_workload(line, "en").split(" @ ")[0]]
    parts.append(" ".join(part for part in (row.framework, row.recipe, row.precision) if part))
    known = batches or {row.batch_size_per_device}
    parts += [f"batch {next(iter(known))}"] if len(known) == 1 and row.batch_size_per_device else []
    data = say_data(line, "en")
    parts += [data] if data != ABSENT else []
    parts += [f"{row.epochs} epochs"] if row.epochs else []
    return plain(", ".join(part for part in parts if part))


def _say_speed(line: Line, lang: str, unit: str) -> str:
    """53,306 ±0.10%: the unit is in the heading."""
    speed = say_throughput(line, lang).removesuffix(unit).strip()
    relative = line.known.relative_half_width if line.known is not None else None
    return f"{speed} {format_plus_minus(relative)}" if relative is not None else speed


def say_time_to_train(line: Line) -> str:
    """Of each run that reached its target; in seconds, as the reports have it."""
    found = [seconds for run in line.runs if (seconds := time_to_train(run)) is not None]
    return ", ".join(f"{seconds:.2f}" for seconds in found) or ABSENT


def say_accuracy(line: Line) -> str:
    """71.2 (top1): the last value of the main metric of each run, in per cent."""
    name = next((str(found["metric"]) for run in line.runs for found in run.evals if found.get("metric")), None)
    values = [value for run in line.runs if (value := _last(run, name)) is not None]
    if not values:
        return ABSENT
    return f"{', '.join(format_number(value, digits=3) for value in values)} ({name})"


def _last(run: RunRow, name: str | None) -> float | None:
    known = [
        float(found["value"]) for found in run.evals if found.get("metric") == name and found.get("value") is not None
    ]
    if not known:
        return None
    # 0.759 and 75.9 are the same accuracy; 0.9 among 40 and 76 means 0.9%.
    return known[-1] * (1 if any(value > 1 for value in known) else 100)
