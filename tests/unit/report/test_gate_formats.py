"""The result of `check` as JUnit XML, as GitHub annotations and summary, as JSON and as text of any width."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from trainmark.analyse.gate_result import CellResult, Finding, GateResult, Status, sort_cells
from trainmark.analyse.tolerance import Metric
from trainmark.messages import gate as messages
from trainmark.report.gate import answer, describe_gate, print_gate
from trainmark.report.github import list_annotations, render_summary
from trainmark.report.junit import render_junit
from trainmark.units import to_json

HOSTILE = 'train.py --name="<b>&\x1b[31m|`\ufffe\n::error::%0A,'


def make_result(*statuses: Status, name: str = "resnet50 torch fast amp, 1 x 8, batch 256") -> GateResult:
    return GateResult(cells=sort_cells([make_cell(f"{name} {n}", status) for n, status in enumerate(statuses)]))


def make_cell(name: str, status: Status) -> CellResult:
    slow = messages.slower(loss=0.049, low=-0.058, high=-0.04, tolerance=0.02)
    same = messages.within(change=0.001, low=-0.004, high=0.006, tolerance=0.02)
    speed = {"metric": Metric.THROUGHPUT, "before": 1528.0, "tolerance": 0.02, "num_runs": (3, 3)}
    findings = {
        Status.REGRESSION: Finding(status=status, why=slow, now=1453.0, ratio=0.951, ci95=(0.942, 0.96), **speed),
        Status.PASS: Finding(status=status, why=same, now=1529.5, ratio=1.001, ci95=(0.996, 1.006), **speed),
        Status.NEW: Finding(metric=None, status=status, why=messages.new_cell()),
    }
    other = Finding(metric=None, status=status, why=messages.not_measured())
    memory = Finding(
        metric=Metric.MEMORY,
        status=Status.PASS,
        why=messages.no_worse(metric="peak memory", change=0.0, tolerance=0.05),
        before=2.0**33,
        now=2.0**33,
        ratio=1.0,
        tolerance=0.05,
    )
    extra = [memory] if status in (Status.PASS, Status.REGRESSION) else []
    found = (findings.get(status, other), *extra)
    return CellResult(name=name, work="w", unit="images", findings=found, run_ids=("run-1", "run-2"), wall_s=60.0)


def print_text(result: GateResult, *, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_gate(result, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


# -- text --------------------------------------------------------------------------------------------------------------


def test_the_answer_comes_first_and_the_worst_cell_next() -> None:
    result = make_result(Status.PASS, Status.REGRESSION, Status.NEW)
    text = print_text(result, width=140)
    assert text.startswith(
        "regression: 1 of 2 cells: resnet50 torch fast amp, 1 x 8, batch 256 1: throughput: 4.9% slower"
    )
    heading, name, first, second = text.splitlines()[2:6]
    assert heading.split() == ["metric", "baseline", "now", "change", "allowed", "result"]
    assert name == "resnet50 torch fast amp, 1 x 8, batch 256 1"
    assert first.split()[1:] == ["1,528", "images/s", "1,453", "images/s", "-4.9%", "-2%", "regression"]
    assert second.split() == ["peak", "memory", "8.0", "GiB", "8.0", "GiB", "0.0%", "+5%", "pass"]
    assert "1 cell not in the baseline" in text


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = print_text(make_result(*Status), width=width)
    assert max(map(len, text.splitlines())) <= width


def test_json_is_schema_2_and_finite() -> None:
    found = json.loads(to_json(describe_gate(make_result(Status.PASS, Status.REGRESSION))))
    assert (found["status"], found["exit_code"]) == ("regression", 3)
    finding = found["cells"][0]["findings"][0]
    assert finding["ratio"] == {"value": 0.951, "ci95": [0.942, 0.96]}
    assert (finding["metric"], finding["runs"], finding["why"]["code"]) == ("throughput", [3, 3], "gate-slower")


# -- JUnit -------------------------------------------------------------------------------------------------------------


def test_junit_is_read_by_a_junit_parser() -> None:
    junitparser = pytest.importorskip("junitparser", reason="junitparser is not installed; the locks have it")
    result = make_result(Status.PASS, Status.REGRESSION, Status.FAILED, Status.INCONCLUSIVE, Status.NEW)
    xml = junitparser.JUnitXml.fromstring(render_junit(result).encode())
    (suite,) = list(xml)
    cases = list(suite)
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (7, 1, 2, 1)
    assert len(cases) == 7
    outcomes = [type(entry).__name__ for case in cases for entry in case.result]
    assert sorted(outcomes) == ["Error", "Error", "Failure", "Skipped"]
    failure = next(entry for case in cases for entry in case.result if isinstance(entry, junitparser.Failure))
    assert failure.type == "regression"
    assert "4.9% slower than the baseline" in failure.message
    assert sum(case.time for case in cases) == pytest.approx(suite.time) == pytest.approx(5 * 60.0)


def test_junit_counts_are_those_of_the_cases() -> None:
    root = ET.fromstring(render_junit(make_result(*Status)))
    (suite,) = root
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(attribute, "-1")) == len(suite.findall(f"testcase/{tag}"))
    assert int(suite.get("tests", "-1")) == len(suite.findall("testcase"))
    assert len({case.get("name") for case in suite}) == len(suite)


def test_junit_of_nothing_is_an_error() -> None:
    for result in (GateResult(cells=()), make_result(Status.NEW)):
        (suite,) = ET.fromstring(render_junit(result))
        assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
        error = suite.find("testcase/error")
        assert error is not None
        assert "nothing measured" in error.get("message", "")


def test_hostile_names_stay_text() -> None:
    result = make_result(Status.REGRESSION, name=HOSTILE)
    (suite,) = ET.fromstring(render_junit(result))
    assert "<b>&\ufffd[31m" in suite[0].get("name", "")
    summary = render_summary(result)
    assert "<b>" not in summary.replace("\\<b\\>", "")
    assert "\x1b" not in summary
    assert all(line.count("|") - line.count("\\|") in (0, 8) for line in summary.splitlines())
    (line,) = list_annotations(result, "base,line:1.toml")
    assert "\n" not in line
    assert line.startswith("::error file=base%2Cline%3A1.toml,title=trainmark%3A regression::train.py")
    assert "%250A" in line


# -- GitHub ------------------------------------------------------------------------------------------------------------


def test_annotations_have_a_level_and_at_most_ten_of_each() -> None:
    statuses = [*[Status.REGRESSION] * 12, Status.INCONCLUSIVE, Status.NEW, Status.PASS, Status.SKIPPED]
    lines = list_annotations(make_result(*statuses), "baseline.toml")
    levels = [line.split(" ")[0] for line in lines]
    assert (levels.count("::error"), levels.count("::warning"), levels.count("::notice")) == (10, 1, 1)


def test_nothing_measured_is_annotated() -> None:
    (line,) = list_annotations(GateResult(cells=()), "baseline.toml")
    assert (
        line == "::error file=baseline.toml,title=trainmark::nothing measured: no cell of the baseline could be judged"
    )


def test_the_summary_is_markdown_with_the_answer_first() -> None:
    result = make_result(Status.PASS, Status.REGRESSION)
    heading, said, table = render_summary(result).split("\n\n")[:3]
    assert heading == "### trainmark check: regression"
    assert said == answer(result)
    assert table.splitlines()[0] == "| cell | metric | baseline | now | change | allowed | result |"
