"""One table declares every column: a new one appears in the index, `--json`, CSV, console and Markdown from there."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from sqlalchemy import create_engine, inspect

from making import make_cell, make_run
from reporting import markdown_of
from trainmark.analyse.table import build_lines
from trainmark.report import columns
from trainmark.report.columns import COLUMNS, Column, TableColumn, csv_columns, table_columns
from trainmark.report.console import print_lines, say
from trainmark.report.document import render_document, render_runs, result_analyser
from trainmark.report.exporting import exports
from trainmark.store.columns import KINDS, Kind, find_kinds
from trainmark.store.index import INDEX_FILE, Store
from trainmark.store.rows import RunRow

SCHEMA_1 = [
    "id", "source", "dialect", "workload", "model", "framework", "recipe", "precision", "size", "device",
    "nodes", "devices", "batch_size_per_device", "data", "epochs", "lr", "until_target", "resumed_from",
    "sweep", "attempt", "retry_of", "pauses", "seed", "repeat", "suite", "cell_id", "machine", "outcome",
    "reason", "wall_s", "peak_memory_bytes", "first_step_s", "records", "throughput", "energy", "mfu", "median",
    "mean_of_rates", "last", "evals", "loss", "time_to_train_s", "speeds", "communication", "stated", "witness",
    "witnesses",
    "identity", "warnings",
]  # fmt: skip
"""And `first_step_s`, `energy`, `mfu`, `witness`, `witnesses` and `identity`, of schema 2."""
MARKS = ["marks", "admitted", "pooled"]
"""Which laws a run breaks, whether it may be compared, and the average of which it is a part."""
CSV = [
    "id", "source", "dialect", "workload", "model", "framework", "recipe", "precision", "size", "device",
    "machine", "nodes", "devices", "batch_size_per_device", "data", "epochs", "seed", "repeat", "outcome",
    "reason", "records", "throughput", "unit", "ci95_low", "ci95_high", "steps", "warmup_steps", "method",
    "spread_low", "spread_high", "median", "mean_of_rates", "last", "time_to_train_s", "wall_s", "peak_memory_bytes",
    "last_metric", "last_value", "samples_per_joule", "device_watts", "host_watts", "mfu",
    "commit", "dirty", "framework_version", "host", "time", "warnings", "marks",
    "accepted_because",
]  # fmt: skip

STEP_TIME = Column(
    name="step_s",
    value=lambda row: float(row.seconds.mean()),
    csv={"step_s": lambda value: value},
    table=TableColumn(
        en="step time", zh="单步用时", text=lambda line, _: f"{line.runs[0].seconds.mean():.3f} s", is_said=True
    ),
)
"""The column that the tests add."""


@pytest.fixture
def _step_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "COLUMNS", (*COLUMNS, STEP_TIME))


def make_rows(tmp_path: Path) -> list[RunRow]:
    for devices in (1, 2):
        make_run(tmp_path, f"run-{devices}", cell=make_cell(devices_per_node=devices), seconds=[0.125] * 60)
    store = Store(tmp_path, analyser=result_analyser())
    store.sync()
    return store.rows()


def print_table(rows: list[RunRow], *, lang: str) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_lines(build_lines(rows), console, lang=lang)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.usefixtures("_step_time")
def test_a_new_column_is_in_every_format(tmp_path: Path) -> None:
    rows = make_rows(tmp_path)
    results = json.loads(render_document(render_runs(rows)))["results"]
    assert [result["step_s"] for result in results] == [0.125, 0.125]
    assert list(results[0]) == [*SCHEMA_1[:-1], "step_s", "warnings", *MARKS]

    header, *lines = csv.reader(io.StringIO(exports().load("csv").export(rows).stream))
    assert header == [*CSV, "step_s"]
    assert [line[-1] for line in lines] == ["0.125", "0.125"]

    assert "step time" in print_table(rows, lang="en")
    assert "单步用时" in print_table(rows, lang="zh")
    assert say(build_lines(rows)[0]).endswith(", 0.125 s")

    for lang, heading in (("en", "step time"), ("zh", "单步用时")):
        results_part = markdown_of(build_lines(rows), lang=lang).split("\n## ")[1]
        assert f"| {heading} |" in results_part
        assert results_part.count("| 0.125 s |") == 2


def test_without_it_the_formats_have_the_columns_of_schema_1(tmp_path: Path) -> None:
    rows = make_rows(tmp_path)
    (result, _) = json.loads(render_document(render_runs(rows)))["results"]
    assert list(result) == [*SCHEMA_1, *MARKS]
    assert [heading for column in csv_columns() for heading in column.csv] == CSV
    assert "step time" not in print_table(rows, lang="en")


def test_columns_are_named_once_and_have_both_headings() -> None:
    names = [column.name for column in COLUMNS]
    assert len(set(names)) == len(names)
    assert all(column.en and column.zh for column in table_columns().values())


def test_a_narrow_terminal_drops_the_new_column_before_the_throughput(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "COLUMNS", (*COLUMNS, STEP_TIME))
    console = Console(file=io.StringIO(), width=60)
    print_lines(build_lines(make_rows(tmp_path)), console)
    assert isinstance(console.file, io.StringIO)
    table = console.file.getvalue().split("step time")[0]
    assert "images/s" in table


def test_a_field_of_the_row_is_a_column_of_the_index(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True, eq=False)
    class MoreRow(RunRow):
        power_w: float | None = None

    assert find_kinds(MoreRow) == {**KINDS, "power_w": Kind.NUMBER}
    make_rows(tmp_path)
    indexed = inspect(create_engine(f"sqlite:///{tmp_path / INDEX_FILE}")).get_columns("runs")
    assert {column["name"] for column in indexed} - {"digest"} == set(KINDS)
    assert set(KINDS) >= {"id", "workload", "lr", "evals", "reason_params", "analysis"}
    assert not {"load_steps", "load_document"} & set(KINDS)


def test_a_field_whose_type_the_index_cannot_hold_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True, eq=False)
    class MoreRow(RunRow):
        flag: bool = False

    with pytest.raises(KeyError):
        find_kinds(MoreRow)
