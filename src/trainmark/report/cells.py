"""The texts of table cells: what each column says about a line, in the console and in Markdown."""

from __future__ import annotations

from trainmark.analyse.estimate import Ratio
from trainmark.analyse.naming import short_model
from trainmark.analyse.table import Line
from trainmark.report.words import UNITS, say_outcome
from trainmark.units import ABSENT, format_bytes, format_interval, format_number, format_plus_minus

OTHER_BASELINE_MARK = "*"
"""After a ratio whose baseline was measured in another environment; a note below the table explains it."""


def say_workload(line: Line, _: str) -> str:
    """resnet50 (small) @ torch 2.11"""
    first = line.first
    size = f" ({first.size})" if first.size not in (None, "full") else ""
    variant = f" @ {line.variant}" if line.variant else ""
    return f"{first.workload or short_model(first)}{size}{variant}"


def say_devices(line: Line, _: str) -> str:
    """2 × 4 (nodes × devices per node), or 8 if the number of nodes is unknown"""
    first = line.first
    devices = str(first.devices or ABSENT)
    counts = f"{first.nodes} × {first.devices // first.nodes}" if first.devices and first.nodes else devices
    return f"{counts} CPU" if first.device == "cpu" else counts


def say_data(line: Line, _: str) -> str:
    """The last part of a path, after `cached:` if the data is cached."""
    data = line.first.data
    if data is None:
        return ABSENT
    kind, colon, path = data.partition(":") if data.startswith("cached:") else ("", "", data)
    return f"{kind}{colon}{path.rstrip('/').rsplit('/', 1)[-1]}" if "/" in path else data


def say_runs(line: Line, lang: str) -> str:
    """3, or 2/3 (oom)"""
    failed = ", ".join(sorted({say_outcome(run, lang) for run in line.problems}))
    return f"{line.num_ok}/{len(line.runs)} ({failed})" if line.problems else str(line.num_ok)


def say_unit(unit: str, lang: str) -> str:
    return UNITS[lang].get(unit, f"{unit}/s")


def say_throughput(line: Line, lang: str) -> str:
    return f"{format_number(line.estimate.value)} {say_unit(line.first.unit, lang)}" if line.estimate else ABSENT


def say_interval(line: Line, _: str) -> str:
    return format_interval(line.estimate.ci95) if line.estimate else ABSENT


def say_relative(line: Line, _: str) -> str:
    return format_plus_minus(line.estimate.relative_half_width) if line.estimate else ABSENT


def say_speedup(line: Line, _: str) -> str:
    return format_ratio(line.speedup, "", is_marked=line.has_other_baseline)


def say_efficiency(line: Line, _: str) -> str:
    return format_ratio(line.efficiency, "%", is_marked=line.has_other_baseline)


def format_ratio(ratio: Ratio | None, sign: str, *, is_marked: bool) -> str:
    """1.87* (1.85 … 1.89)"""
    if ratio is None:
        return ABSENT
    factor = 100 if sign else 1
    value = f"{format_number(factor * ratio.value, digits=3)}{sign}{OTHER_BASELINE_MARK if is_marked else ''}"
    if ratio.ci95 is None:
        return value
    low, high = (format_number(factor * bound, digits=3) for bound in ratio.ci95)
    return f"{value} ({low} … {high})"


def say_last_metric(line: Line, _: str) -> str:
    """The last value of the main metric in each run; the first metric of a workload is its main one."""
    values = []
    name = None
    for run in line.runs:
        name = name or next((str(e["metric"]) for e in run.evals), None)
        own = [e["value"] for e in run.evals if e["metric"] == name]
        values += own[-1:]
    if not values:
        return ABSENT
    return f"{name} " + ", ".join(format_number(value, digits=3) for value in values)


def say_peak_memory(line: Line, _: str) -> str:
    return format_bytes(max(run.peak_memory_bytes or 0 for run in line.runs) or None)
