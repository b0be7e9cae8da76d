"""Every column of a result, once: what `--json` and CSV have of a run, and what tables show of a line.

To add a column, add it to COLUMNS: `--json`, CSV, console and Markdown follow from this table. A new fact of a run
folder also needs a field of `RunRow`, from which the index takes its columns, and a field of the same name where it is
read (`RunDocument`, `CellRecord` or `RankRecords`). A new number derived from the steps needs a field of `Analysis`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from typing import Any

from trainmark.analyse.analysis import analysis_of
from trainmark.analyse.communication import describe_communication
from trainmark.analyse.estimate import Estimate
from trainmark.analyse.table import Line
from trainmark.analyse.training import time_to_train
from trainmark.analyse.utilisation import find_utilisation, measured_peak
from trainmark.report.cells import (
    say_data,
    say_devices,
    say_efficiency,
    say_interval,
    say_last_metric,
    say_peak_memory,
    say_per_joule,
    say_relative,
    say_runs,
    say_speedup,
    say_throughput,
    say_utilisation,
    say_workload,
)
from trainmark.report.energy import describe_energy
from trainmark.report.provenance import describe_identity
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, plain


class Shown(Enum):
    """When tables have the column."""

    ALWAYS = 0
    KNOWN = 1
    """Where at least one line has a value."""
    DIFFERING = 2
    """Where lines differ in it."""
    REPORT = 3
    """Only in the results of a Markdown report."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TableColumn:
    """The column in tables of the console and of Markdown, whose rows are lines."""

    en: str
    """Heading."""
    zh: str
    text: Callable[[Line, str], object]
    """From a line and a language; ABSENT if it is not known."""
    shown: Shown = Shown.KNOWN
    is_number: bool = False
    """Aligned to the right, and never folded."""
    is_setup: bool = False
    """Part of what was measured, not of the result."""
    is_said: bool = False
    """Also at the end of the sentence about a line."""
    is_shortened: bool = False
    """A narrow terminal shows only its first word."""
    drop: int | None = 3
    """A narrow terminal drops the column with the lowest number first; None: never."""
    drop_only_same: bool = False
    """Dropped only if all lines have the same text."""
    after: str | None = None
    """The column that it follows in tables; None: declared order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Column:
    name: str
    """Of the field in `--json`."""
    value: Callable[[RunRow], Any] | None = None
    """For `--json`; None: not there."""
    csv: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """CSV columns by heading, each from the value in `--json`."""
    csv_after: str | None = None
    """The column that it follows in CSV; None: declared order."""
    table: TableColumn | None = None
    """In tables; None: not there."""


# -- how a value is taken ----------------------------------------------------------------------------------------------


def _fact(name: str, *, in_csv: bool = False, csv_after: str | None = None, table: TableColumn | None = None) -> Column:
    """A field of the row as it is."""
    csv = {name: _same} if in_csv else {}
    return Column(name=name, value=attrgetter(name), csv=csv, csv_after=csv_after, table=table)


def _rate(name: str) -> Column:
    """A field of the analysis as it is."""
    return Column(name=name, value=lambda row: getattr(analysis_of(row), name), csv={name: _same})


def _same(value: Any) -> Any:
    return value


def _text(name: str) -> Callable[[Line, str], object]:
    """A fact that the runs of a line share."""
    return lambda line, _: getattr(line.first, name) or ABSENT


def _count(name: str) -> Callable[[Line, str], object]:
    """A count of the pooled estimate."""
    return lambda line, _: getattr(line.estimate, name) if line.estimate else ABSENT


def _part(name: str) -> Callable[[Any], Any]:
    return lambda value: (value or {}).get(name)


def _bound(place: int, name: str = "ci95") -> Callable[[Any], Any]:
    return lambda value: ((value or {}).get(name) or (None, None))[place]


def _watts(kind: str) -> Callable[[Any], Any]:
    return lambda value: (((value or {}).get(kind) or {}).get("watts") or {}).get("value")


def _of_last(name: str) -> Callable[[Any], Any]:
    return lambda evals: evals[-1].get(name) if evals else None


def _codes(warnings: Any) -> str:
    return " ".join(dict.fromkeys(warning["code"] for warning in warnings))


def _laws(marks: Any) -> str:
    return " ".join(mark["law"] for mark in marks)


def _reasons(marks: Any) -> str | None:
    return "; ".join(f"{mark['law']}: {mark['accepted']['because']}" for mark in marks if mark["accepted"]) or None


def describe_estimate(estimate: Estimate | None, unit: str) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {
        "value": None if estimate.is_too_noisy else estimate.value,
        "unit": f"{unit}/s",
        "scope": "global",
        "ci95": list(estimate.ci95) if estimate.ci95 else None,
        "steps": estimate.num_steps,
        "warmup_steps": estimate.num_warmup_steps,
        "method": estimate.method,
        "spread": list(estimate.spread) if estimate.spread else None,
        "doubts": [doubt.to_json() for doubt in estimate.doubts],
    }


def _utilisation(row: RunRow) -> float | None:
    """Of the measured matrix peak; None above it, since a number above it is an error."""
    found = find_utilisation(row, analysis_of(row).estimate, measured_peak(row))
    return found if found is not None and found <= 1 else None


def _num_records(row: RunRow) -> int:
    return analysis_of(row).num_records if row.num_records is None else row.num_records


def _losses(row: RunRow) -> list[list[float]]:
    return [list(pair) for pair in zip(row.loss_steps.tolist(), row.losses.tolist(), strict=True)]


# -- the table, in the order of `--json` -------------------------------------------------------------------------------

COLUMNS: tuple[Column, ...] = (
    _fact("id", in_csv=True),
    _fact("source", in_csv=True),
    _fact("dialect", in_csv=True),
    _fact("workload", in_csv=True, table=TableColumn(
        en="workload", zh="模型", text=say_workload, shown=Shown.ALWAYS, is_setup=True, drop=11, drop_only_same=True)),
    _fact("model", in_csv=True),
    _fact("framework", in_csv=True, table=TableColumn(
        en="framework", zh="框架", text=_text("framework"), shown=Shown.DIFFERING, is_setup=True, drop=None)),
    _fact("recipe", in_csv=True, table=TableColumn(
        en="recipe", zh="配方", text=_text("recipe"), is_setup=True, drop=6)),
    _fact("precision", in_csv=True, table=TableColumn(
        en="precision", zh="精度", text=_text("precision"), shown=Shown.ALWAYS, is_setup=True,
        drop=8, drop_only_same=True)),
    _fact("size", in_csv=True),
    _fact("device", in_csv=True),
    _fact("nodes", in_csv=True),
    _fact("devices", in_csv=True, table=TableColumn(
        en="devices", zh="设备数", text=say_devices, shown=Shown.ALWAYS, is_setup=True, drop=9, drop_only_same=True)),
    _fact("batch_size_per_device", in_csv=True, table=TableColumn(
        en="batch/device", zh="单设备批大小", text=_text("batch_size_per_device"), shown=Shown.ALWAYS, is_setup=True,
        is_number=True, drop=10, drop_only_same=True)),
    _fact("data", in_csv=True, table=TableColumn(en="data", zh="数据", text=say_data, is_setup=True, drop=2)),
    _fact("epochs", in_csv=True),
    _fact("lr"),
    _fact("until_target"),
    _fact("resumed_from"),
    _fact("sweep"),
    _fact("attempt"),
    _fact("retry_of"),
    _fact("pauses"),
    _fact("seed", in_csv=True),
    _fact("repeat", in_csv=True),
    _fact("suite"),
    _fact("cell_id"),
    _fact("machine", in_csv=True, csv_after="device", table=TableColumn(
        en="machine", zh="机器", text=_text("machine"), shown=Shown.DIFFERING, is_setup=True, drop=5,
        after="framework")),
    _fact("outcome", in_csv=True),
    _fact("reason", in_csv=True),
    _fact("wall_s", in_csv=True, csv_after="time_to_train_s"),
    _fact("peak_memory_bytes", in_csv=True, csv_after="wall_s", table=TableColumn(
        en="peak memory", zh="峰值内存", text=say_peak_memory, shown=Shown.REPORT, after="steady_steps")),
    _fact("first_step_s"),
    Column(name="records", value=_num_records, csv={"records": _same}),
    Column(name="runs", table=TableColumn(en="runs", zh="次数", text=say_runs, shown=Shown.ALWAYS, drop=1)),
    Column(
        name="throughput",
        value=lambda row: describe_estimate(analysis_of(row).estimate, row.unit),
        csv={"throughput": _part("value"), "unit": _part("unit"), "ci95_low": _bound(0), "ci95_high": _bound(1),
             "steps": _part("steps"), "warmup_steps": _part("warmup_steps"), "method": _part("method"),
             "spread_low": _bound(0, "spread"), "spread_high": _bound(1, "spread")},
        table=TableColumn(
            en="throughput (all devices)", zh="吞吐量（全部设备）", text=say_throughput, shown=Shown.ALWAYS,
            is_number=True, drop=None),
    ),
    Column(name="interval", table=TableColumn(
        en="95% interval", zh="95% 置信区间", text=say_interval, shown=Shown.ALWAYS, is_number=True, drop=0)),
    Column(name="relative", table=TableColumn(
        en="±", zh="±", text=say_relative, shown=Shown.ALWAYS, is_number=True, drop=None)),
    Column(name="speedup", table=TableColumn(
        en="speed-up", zh="加速比", text=say_speedup, is_number=True, is_shortened=True, drop=7)),
    Column(name="efficiency", table=TableColumn(
        en="efficiency", zh="效率", text=say_efficiency, is_number=True, is_shortened=True, drop=4)),
    Column(
        name="energy",
        value=describe_energy,
        csv={"samples_per_joule": _part("samples_per_joule"), "device_watts": _watts("device"),
             "host_watts": _watts("host")},
        csv_after="peak_memory_bytes",
        table=TableColumn(
            en="per joule", zh="每焦耳", text=say_per_joule, is_number=True, is_shortened=True, drop=1,
            after="efficiency"),
    ),
    Column(
        name="mfu",
        value=_utilisation,
        csv={"mfu": _same},
        csv_after="energy",
        table=TableColumn(en="MFU", zh="MFU", text=say_utilisation, is_number=True, drop=2, after="energy"),
    ),
    _rate("median"),
    _rate("mean_of_rates"),
    _rate("last"),
    Column(
        name="evals",
        value=lambda row: list(row.evals),
        csv={"last_metric": _of_last("metric"), "last_value": _of_last("value")},
        csv_after="peak_memory_bytes",
        table=TableColumn(en="metric", zh="指标", text=say_last_metric, is_said=True, drop=3),
    ),
    Column(name="warmup_steps", table=TableColumn(
        en="warm-up steps found", zh="识别出的预热步数", text=_count("num_warmup_steps"), shown=Shown.REPORT)),
    Column(name="steady_steps", table=TableColumn(
        en="steady steps", zh="稳态步数", text=_count("num_steps"), shown=Shown.REPORT)),
    Column(name="loss", value=_losses),
    Column(name="time_to_train_s", value=time_to_train, csv={"time_to_train_s": _same}),
    Column(name="speeds", value=lambda row: analysis_of(row).speeds),
    Column(name="communication", value=describe_communication),
    Column(name="stated", value=lambda row: row.log.get("stated")),
    _fact("witness"),
    _fact("witnesses"),
    Column(name="identity", value=describe_identity, csv={
        "commit": _part("commit"), "dirty": _part("dirty"), "framework_version": _part("framework"),
        "host": _part("host"), "time": _part("time")}),
    Column(name="warnings", csv={"warnings": _codes}),
    Column(name="marks", csv={"marks": _laws, "accepted_because": _reasons}),
)  # fmt: skip


# -- what each format takes from it ------------------------------------------------------------------------------------


def describe_numbers(row: RunRow) -> dict[str, Any]:
    """A run in `--json`, without the warnings: comparing it with other runs may add some."""
    return {name: only_finite(value) for name, value in describe_values(row).items()}


def describe_values(row: RunRow) -> dict[str, Any]:
    """The same with NaN and infinities, for `to_json`."""
    return {column.name: column.value(row) for column in COLUMNS if column.value is not None}


def only_finite(value: Any) -> Any:
    """None instead of infinities and NaN, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: only_finite(item) for name, item in value.items()}
    return [only_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def csv_columns() -> list[Column]:
    return [column for column in _arrange(COLUMNS, lambda column: column.csv_after) if column.csv]


def table_columns() -> Mapping[str, TableColumn]:
    """By column name, in the order of tables."""
    return _table_columns(COLUMNS)


@lru_cache(maxsize=2)
def _table_columns(columns: tuple[Column, ...]) -> dict[str, TableColumn]:
    arranged = _arrange(columns, lambda column: column.table.after if column.table else None)
    return {column.name: column.table for column in arranged if column.table is not None}


def _arrange(columns: Sequence[Column], after: Callable[[Column], str | None]) -> list[Column]:
    """In the declared order, except for columns that follow a certain other one."""
    found = [column for column in columns if after(column) is None]
    for column in columns:
        if (name := after(column)) is not None:
            found.insert([other.name for other in found].index(name) + 1, column)
    return found


def heading(name: str, lang: str) -> str:
    shown = table_columns()[name]
    return shown.zh if lang == "zh" else shown.en


def describe_line(line: Line, lang: str, *, only: Collection[str] | None = None) -> dict[str, str]:
    """What each column of a table says about a line, by column name."""
    columns = table_columns()
    return {name: plain(columns[name].text(line, lang)) for name in (columns if only is None else only)}


def shown_columns(lines: Sequence[Mapping[str, str]], *, in_report: bool = False) -> list[str]:
    """Names of the columns that a table of these lines has."""
    return [
        name for name, column in table_columns().items() if _is_shown(name, column.shown, lines, in_report=in_report)
    ]


def _is_shown(name: str, shown: Shown, lines: Sequence[Mapping[str, str]], *, in_report: bool) -> bool:
    if shown is Shown.DIFFERING:
        # A run that failed before it knew its machine does not count as another machine.
        return len({line[name] for line in lines if line[name] != ABSENT or line["throughput"] != ABSENT}) > 1
    if shown is Shown.KNOWN:
        return any(line[name] != ABSENT for line in lines)
    return shown is Shown.ALWAYS or in_report


def differing_columns() -> list[str]:
    """Columns that are shown only where lines differ in them."""
    return [name for name, column in table_columns().items() if column.shown is Shown.DIFFERING]
