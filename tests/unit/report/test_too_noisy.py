"""A result whose interval is wider than ±25% is not a number, in any output; a refused interval says why."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from making import make_cell, make_run
from reporting import markdown_of
from trainmark.analyse.analysis import estimate_run
from trainmark.analyse.noise import find_cause
from trainmark.analyse.repeats import BETWEEN
from trainmark.analyse.table import Line, build_lines
from trainmark.cli.main import main
from trainmark.messages.doubts import two_levels, within_one_run
from trainmark.messages.machine import cores_stolen, noisy_neighbour
from trainmark.report.console import say
from trainmark.report.scaling import describe_studies
from trainmark.runfolder.files import rank_file
from trainmark.store.folder import read_run
from trainmark.units import format_interval

BUSY = [0.959, 1.294, 2.549, 2.139, 5.547, 3.002, 1.436, 0.803, 0.251, 0.176]
"""As on a machine that does something else: 16 images a step made "8.813 images/s ±1206%", printed as a result."""
NUMBER = "8.81"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A noisy run on one device, a steady one on two."""
    stolen = {"kind": "warning", **noisy_neighbour(what=cores_stolen(host="h", cores=2, stolen=0.9)).to_json()}
    root = tmp_path / "runs"
    noisy = make_run(root, "r1-noisy", cell=make_cell(batch_size_per_device=16), seconds=BUSY, extra=[stolen])
    steps = noisy / rank_file(0)
    steps.write_text(steps.read_text().replace('"step": 10,', '"step": 10, "loss": 0.25,'))
    make_run(root, "r2-calm", cell=make_cell(batch_size_per_device=16, devices_per_node=2), seconds=[0.1] * 50)
    return root


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(list(argv)) == 0
    return capsys.readouterr().out


def spread_of(store: Path) -> str:
    row = read_run(store / "r1-noisy")
    assert row is not None
    estimate = estimate_run(row)
    assert estimate is not None
    assert estimate.is_too_noisy
    return format_interval(estimate.spread)


@pytest.mark.parametrize("words", ["show", "report", "report --lang zh", "report --format console --lang zh"])
@pytest.mark.parametrize("columns", ["80", "140"])
def test_no_text_shows_a_value(
    words: str, columns: str, store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = run(capsys, *words.split(), "--store", str(store))
    assert NUMBER not in out
    assert ("噪声过大" if "zh" in words else "too noisy") in out
    assert spread_of(store) in out
    assert ("扣留" if "zh" in words else "the hypervisor gave 0.90 of 2 cores") in " ".join(out.split())
    assert "320.0" in out, "the other run has its number"


def test_json_has_the_spread_instead_of_the_value(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "show", "--json", "--store", str(store)))
    noisy, calm = document["results"]
    assert noisy["outcome"] == "ok"
    assert noisy["throughput"]["value"] is None
    low, high = noisy["throughput"]["spread"]
    assert low < 10 < high
    assert [warning["code"] for warning in noisy["warnings"]] == ["noisy-neighbour", "too-noisy"]
    assert calm["throughput"]["value"] == pytest.approx(320)
    base, case = document["scaling"][0]["lines"]
    assert (base["throughput"]["value"], case["speedup"], case["efficiency"]) == (None, None, None)


def test_csv_has_an_empty_field(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noisy, calm = csv.DictReader(io.StringIO(run(capsys, "export", "--format", "csv", "--store", str(store))))
    assert noisy["throughput"] == ""
    assert float(noisy["spread_low"]) < 10 < float(noisy["spread_high"])
    assert "too-noisy" in noisy["warnings"]
    assert float(calm["throughput"]) == pytest.approx(320)


def test_dlperf_leaves_it_out(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The format has no null, and a zero would be a made-up number."""
    assert main(["export", "--format", "dlperf", "--store", str(store)]) == 0
    out, err = capsys.readouterr()
    assert NUMBER not in out
    assert "320" in out
    assert "1 run left out: too noisy" in err
    assert '"speedup": null' in out


def test_paddle_benchmark_marks_it_as_failed_and_keeps_its_loss(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = run(capsys, "export", "--format", "paddle-benchmark", "--store", str(store)).splitlines()
    noisy, calm = (json.loads(line) for line in lines)
    assert (noisy["JOB_FAIL_FLAG"], noisy["FINAL_RESULT"]) == (1, 0.0)
    assert noisy["LOSS_RESULT"] == 0.25
    low, high = noisy["spread"]
    assert low < 10 < high
    assert (calm["JOB_FAIL_FLAG"], calm["FINAL_RESULT"]) == (0, 320)
    assert NUMBER not in lines[0]


def test_mllog_has_no_speed_for_it(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "export", "--format", "mllog", "--store", str(store))
    assert out.count("tracked_stats") == 1
    assert NUMBER not in out
    (stop,) = (line for line in out.splitlines() if "run_stop" in line and "spread" in line)
    assert '"status": "success"' in stop


def test_ai_rank_has_no_speed_for_it(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "export", "--format", "ai-rank", "--store", str(store), "-o", f"{tmp_path}/out/")
    texts = {path.name: path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert not any(NUMBER in text for text in texts.values())
    assert "avg_ips" not in texts["CPUx1.log"]
    noisy, calm = json.loads(texts["summary_metrics.json"])
    assert (noisy["throughput"], calm["speed-up"]) == (None, None)
    low, high = noisy["spread"]
    assert low < high


# -- refusals ----------------------------------------------------------------------------------------------------------


def doubted(tmp_path: Path, **changes: Any) -> Line:
    row = read_run(make_run(tmp_path, f"r{len(list(tmp_path.iterdir()))}", seconds=[0.1] * 50))
    assert row is not None
    estimate = estimate_run(row)
    assert estimate is not None
    (line,) = build_lines([row])
    return replace(line, estimate=replace(estimate, **changes))


def test_a_refused_interval_says_why(tmp_path: Path) -> None:
    doubts = (two_levels(high=7350, low=6990, times=3), within_one_run())
    line = doubted(tmp_path, ci95=None, std_error=None, dof=None, doubts=doubts)
    assert "40.00 images/s (no interval: the speed switched between two levels: 7,350 and 6,990" in say(line)
    assert "（无区间：速度在两个水平之间切换" in say(line, lang="zh")
    for lang, words in (("en", "two levels"), ("zh", "两个水平")):
        assert f"| {words} |" in markdown_of([line], lang=lang)


def test_an_interval_within_one_run_says_so(tmp_path: Path) -> None:
    assert "±0.50% within one run" in say(doubted(tmp_path, ci95=(39.8, 40.2), doubts=(within_one_run(),)))
    assert "within" not in say(doubted(tmp_path, ci95=(39.8, 40.2), doubts=()))


def test_studies_have_no_ratio_to_a_noisy_base(store: Path) -> None:
    from trainmark.analyse.scaling import build_studies

    rows = [row for name in ("r1-noisy", "r2-calm") if (row := read_run(store / name)) is not None]
    (study,) = build_studies(build_lines(rows))
    assert [case["speedup"] for case in describe_studies([study])[0]["lines"]] == [None, None]


# -- two runs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "is_recorded", "english", "chinese"),
    [
        ([0.1, 0.11], False, "note: only two runs, which differ by 10.0%; a third narrows the interval",
         "说明：只有两次运行，相差 10.0%；再运行一次可缩小区间"),
        ([0.1, 0.2, 0.1], False, "note: likely cause: unknown", "说明：可能的原因：未知"),
        ([0.1, 0.11], True, "the hypervisor gave", "扣留"),
    ],
)  # fmt: skip
def test_two_runs_that_differ_are_not_called_disturbed(
    seconds: list[float], is_recorded: bool, english: str, chinese: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    stolen = {"kind": "warning", **noisy_neighbour(what=cores_stolen(host="h", cores=2, stolen=0.9)).to_json()}
    root = tmp_path / "runs"
    for number, own in enumerate(seconds):
        make_run(root, f"r{number}", seconds=[own] * 50, extra=[stolen] if is_recorded else None)
    for words, says in (("show", english), ("report --format console --lang zh", chinese)):
        out = " ".join(run(capsys, *words.split(), "--store", str(root)).split())
        assert says in out
    # The report has it beside the range that was seen.
    assert english.removeprefix("note: ") in run(capsys, "report", "--store", str(root))


def test_what_was_found_within_one_of_two_runs_is_said_beside_their_difference(tmp_path: Path) -> None:
    """It is not called the cause: rounding to 10% of a step does not make one run twice as fast as another."""
    spread, doubt = (20.0, 40.0), two_levels(high=40, low=38, times=3)
    line = doubted(tmp_path, method=BETWEEN, dof=1.0, spread=spread, ci95=(1.0, 900.0), doubts=(doubt,))
    assert line.estimate is not None
    said = find_cause(line.estimate, [])
    expected = "only two runs, which differ by 100.0%; a third narrows the interval; within a run: the speed switched"
    assert said.english.startswith(expected)
    assert "；单次运行之内：速度在两个水平之间切换" in said.chinese
