"""A line as texts: the one place that decides what a column says, for every renderer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from trainmark.analyse.estimate import Ratio
from trainmark.analyse.table import Line
from trainmark.report.recorded import say_outcome
from trainmark.report.words import UNITS
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_interval, format_number, format_plus_minus, plain

COLUMNS = ("workload", "framework", "machine", "recipe", "precision", "devices", "batch", "data", "runs", "throughput",
           "interval", "relative", "speedup", "efficiency", "accuracy")  # fmt: skip
TELLING = ("framework", "machine")
"""Of interest only where lines differ in them."""
_OPTIONAL = ("recipe", "data", "speedup", "efficiency", "accuracy")
OTHER_BASE_MARK = "*"


def describe_line(line: Line, lang: str) -> dict[str, str]:
    first, estimate = line.first, line.estimate
    unit = UNITS[lang].get(first.unit, f"{first.unit}/s")
    failed = ", ".join(sorted({say_outcome(run, lang) for run in line.problems}))
    runs = f"{line.num_ok}/{len(line.runs)} ({failed})" if line.problems else str(line.num_ok)
    small = f" ({first.size})" if first.size not in (None, "full") else ""
    devices = str(first.devices or ABSENT)
    nodes = f"{first.nodes} × {first.devices // first.nodes}" if first.devices and first.nodes else devices
    device = " CPU" if first.device == "cpu" else ""
    variant = f" @ {line.variant}" if line.variant else ""
    cells = {
        "workload": f"{first.workload or _short_model(first)}{small}{variant}",
        "framework": first.framework or ABSENT,
        "machine": first.machine or ABSENT,
        "recipe": first.recipe or ABSENT,
        "precision": first.precision or ABSENT,
        "devices": nodes + device,
        "batch": first.batch_size_per_device or ABSENT,
        "data": _short_data(first.data),
        "runs": runs,
        "throughput": f"{format_number(estimate.value)} {unit}" if estimate else ABSENT,
        "interval": format_interval(estimate.ci95) if estimate else ABSENT,
        "relative": format_plus_minus(estimate.relative_half_width) if estimate else ABSENT,
        "speedup": format_ratio(line.speedup, "", is_marked=line.has_other_baseline),
        "efficiency": format_ratio(line.efficiency, "%", is_marked=line.has_other_baseline),
        "accuracy": _last_metric(line),
    }
    return {name: plain(text) for name, text in cells.items()}


def shown_columns(lines: Sequence[dict[str, str]]) -> tuple[str, ...]:
    """Without what is absent from all lines, or the same where that is not worth a column."""
    left_out = {name for name in TELLING if len(_told(lines, name)) <= 1}
    left_out |= {name for name in _OPTIONAL if {line[name] for line in lines} == {ABSENT}}
    return tuple(name for name in COLUMNS if name not in left_out)


def _told(lines: Sequence[dict[str, str]], name: str) -> set[str]:
    """A run that ended before it knew its machine is not of another one."""
    return {line[name] for line in lines if line[name] != ABSENT or line["throughput"] != ABSENT}


def format_ratio(ratio: Ratio | None, sign: str, *, is_marked: bool = False) -> str:
    """`is_marked`: the base is of another environment, which a note below the table explains."""
    if ratio is None:
        return ABSENT
    factor = 100 if sign else 1
    value = f"{format_number(factor * ratio.value, digits=3)}{sign}{OTHER_BASE_MARK if is_marked else ''}"
    if ratio.ci95 is None:
        return value
    low, high = (format_number(factor * bound, digits=3) for bound in ratio.ci95)
    return f"{value} ({low} … {high})"


def _short_model(row: RunRow) -> str:
    """A command without the way to its interpreter and its script: those do not tell two of them apart in a table."""
    if row.model is None:
        return PurePath(row.source).name
    if row.source != "command":
        return row.model
    words = row.model.split(" ")
    is_script = len(words) > 1 and not words[1].startswith("-")  # python -c and -m are no script's name
    has_interpreter = is_script and words[0].rsplit("/", 1)[-1].startswith("python")
    first, *rest = words[1:] if has_interpreter else words
    return " ".join([first.rsplit("/", 1)[-1], *rest])


def _short_data(data: str | None) -> str:
    if data is None:
        return ABSENT
    kind, colon, path = data.partition(":") if data.startswith("cached:") else ("", "", data)
    return f"{kind}{colon}{path.rstrip('/').rsplit('/', 1)[-1]}" if "/" in path else data


def _last_metric(line: Line) -> str:
    """The main metric's last value in each run; the first metric of a workload is its main one."""
    values = []
    name = None
    for run in line.runs:
        name = name or next((str(e["metric"]) for e in run.evals), None)
        own = [e["value"] for e in run.evals if e["metric"] == name]
        values += own[-1:]
    if not values:
        return ABSENT
    return f"{name} " + ", ".join(format_number(value, digits=3) for value in values)
