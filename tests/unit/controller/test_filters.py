"""Which runs `show` lists, and in which order."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import pytest

from making import make_cell, make_run
from trainmark.analyse.table import build_lines
from trainmark.cli.parser import moment
from trainmark.controller.filters import Filters, filter_rows, sort_lines
from trainmark.errors import InputError
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow

NOW = 1_794_816_000.0
"""2026-11-16T08:00:00Z"""


@pytest.fixture
def rows(tmp_path: Path) -> list[RunRow]:
    cells = {"old": make_cell(), "new": make_cell(workload="tsm"), "bad": make_cell(precision="amp")}
    found = []
    for number, (name, cell) in enumerate(cells.items()):
        outcome = "failed" if name == "bad" else "ok"
        folder = make_run(tmp_path, name, cell=cell, outcome=outcome, seconds=[0.1 / (number + 1)] * 50)
        run = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps({**run, "created_unix_s": NOW - 86_400 * (2 - number)}))
        git = {"commit": f"{number}" * 40, "branch": "main" if name == "new" else "other", "diff_sha256": None}
        (folder / "env.json").write_text(json.dumps({"git": git}))
        row = read_run(folder)
        assert row is not None
        found.append(row)
    return found


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (Filters(), ["old", "new", "bad"]),
        (Filters(workload="tsm"), ["new"]),
        (Filters(since_unix_s=NOW - 90_000), ["new", "bad"]),
        (Filters(commit="000000"), ["old"]),
        (Filters(commit="main"), ["new"]),
        (Filters(failed=True), ["bad"]),
    ],
)
def test_what_is_left(rows: list[RunRow], filters: Filters, ids: list[str]) -> None:
    assert [row.id for row in filter_rows(rows, filters)] == ids


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (Filters(workload="resnet"), "--workload resnet: no such run"),
        (Filters(since_unix_s=NOW + 1, failed=True), "no run is left by --since, --failed"),
        (Filters(commit="abcdef"), "no run of commit or branch"),
    ],
)
def test_nothing_left_is_an_error(rows: list[RunRow], filters: Filters, said: str) -> None:
    with pytest.raises(InputError) as caught:
        filter_rows(rows, filters)
    assert said in str(caught.value)


def test_lines_without_a_value_come_last_either_way(rows: list[RunRow]) -> None:
    lines = build_lines(rows)

    def order(name: str, *, is_reversed: bool = False) -> list[str]:
        return [line.first.id for line in sort_lines(lines, name, is_reversed=is_reversed)]

    assert order("throughput") == ["old", "new", "bad"]
    assert order("throughput", is_reversed=True) == ["new", "old", "bad"]
    assert order("time", is_reversed=True) == ["bad", "new", "old"]
    with pytest.raises(InputError, match="unknown value 'speed'"):
        sort_lines(lines, "speed", is_reversed=False)


def test_a_moment_is_a_time_in_utc_or_an_age() -> None:
    for text in ("2026-11-16T08:00", "2026-11-16T08:00Z", "2026-11-16T16:00+08:00", "1794816000"):
        assert moment(text) == NOW, text
    assert moment("2026-11-16") == NOW - 8 * 3600
    assert abs(time.time() - 2 * 86_400 - moment("2d")) < 60
    with pytest.raises(argparse.ArgumentTypeError, match="must be a time"):
        moment("soon")
