"""`trainmark check` on the command line: exit codes, files, baselines and the history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from scipy.stats import beta

from making import make_cell
from measured import History, change_run
from schema_checking import check_document
from trainmark.analyse.replay import upper_limit
from trainmark.cli.main import main


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return History(tmp_path / "runs")


def run(*argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["check", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def read(*argv: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    _, out, _ = run("--json", *argv, capsys=capsys)
    found: dict[str, Any] = json.loads(out)
    assert found["schema"] == 2
    check_document("check-update" if "--update" in argv else "check-replay" if "--replay" in argv else "check", found)
    return found


def test_accept_pass_and_regress(store: History, capsys: pytest.CaptureFixture[str]) -> None:
    store.measure(100)
    code, out, err = run("--update", capsys=capsys)
    assert (code, out.splitlines()[0]) == (0, "trainmark-baseline.toml: 1 cell: 1 added")
    assert err.endswith("next: git add trainmark-baseline.toml\n")
    store.measure(100)
    code, out, _ = run(capsys=capsys)
    assert (code, out.splitlines()[0]) == (0, "pass: no regression in 1 cell")
    store.measure(94)
    code, out, err = run("--junit", "out/junit.xml", capsys=capsys)
    assert code == 3
    assert out.startswith("regression: resnet50 (small)")
    assert err.endswith("next: trainmark show\n")
    assert ET.parse("out/junit.xml").getroot().get("failures") == "1"
    code, out, _ = run("--update", capsys=capsys)
    assert (code, out.splitlines()[0]) == (0, "trainmark-baseline.toml: 1 cell: 1 replaced")
    assert "-5.7%" in out.splitlines()[2]


def test_github_gets_annotations_and_a_summary(
    store: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store.measure(100)
    run("--update", capsys=capsys)
    store.measure(94)
    Path("summary.md").write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    code, out, err = run("--json", capsys=capsys)
    assert (code, json.loads(out)["exit_code"]) == (3, 3)
    assert err.startswith("::error file=trainmark-baseline.toml,title=trainmark%3A regression::resnet50")
    assert Path("summary.md").read_text().startswith("before\n### trainmark check: regression\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "no/such/folder/summary.md")
    assert run(capsys=capsys)[0] == 3, "a summary that cannot be written does not change the answer"


def test_json_has_every_finding(store: History, capsys: pytest.CaptureFixture[str]) -> None:
    store.measure(100, memory=2**30)
    assert read("--update", capsys=capsys)["changes"][0]["is_new"] is True
    ids = store.measure(100, memory=2**30)
    (cell,) = read(capsys=capsys)["cells"]
    assert (cell["status"], cell["run_ids"]) == ("pass", ids)
    assert [finding["metric"] for finding in cell["findings"]] == ["throughput", "memory"]
    assert cell["findings"][0]["runs"] == [3, 3]


@pytest.mark.parametrize("store_name", ["nowhere", "empty"])
def test_nothing_measured_is_4_and_the_files_say_so(
    store: History, store_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store.measure(100)
    run("--update", capsys=capsys)
    Path("empty").mkdir()
    code, out, err = run("--store", store_name, "--junit", "junit.xml", capsys=capsys)
    assert code == 4
    assert out.startswith("not measured: resnet50")
    assert "next:" not in err, "no run tells the command"
    assert ET.parse("junit.xml").getroot().get("errors") == "1"
    code, out, _ = run("--update", "--store", store_name, capsys=capsys)
    assert (code, out) == (4, "nothing written to trainmark-baseline.toml: nothing measured\n")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("", "baseline not found: trainmark-baseline.toml"),
        ("--since yesterday", "--since: must be a time, such as 2026-11-16T08:00 or 7d, got 'yesterday'"),
        ("--update --replay", "--replay: not allowed with argument --update"),
        ("--update --junit x.xml", "--junit cannot be combined with --update"),
        ("--replay --since 0", "--since cannot be combined with --replay"),
        ("--update nightly", "no run and no cell of the baseline is of suite 'nightly'"),
        ("--baseline runs", "cannot read the baseline runs"),
        ("--store f", "is a file, expected a folder"),
    ],
)
def test_bad_input(store: History, argv: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    store.measure(100)
    Path("f").touch()
    code, out, err = run(*argv.split(), capsys=capsys)
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.parametrize(
    ("measured", "code", "says"),
    [
        ({"outcomes": ("ok", "oom")}, 1, "1 of 3 runs failed: runs-0000-2: oom"),
        ({"runs": 1}, 4, "has 1 run, and a baseline needs 2 or more to know how much runs differ; use --repeat 3"),
        ({"speed": [50.0, 100.0, 150.0]}, 4, "too noisy"),
        ({"steps": 0}, 4, "it has no throughput"),
    ],
)
def test_what_an_update_refuses(
    store: History, measured: dict[str, Any], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And then nothing is written, also not what is fine."""
    store.measure(**measured)
    store.measure(100, cell=make_cell(precision="amp"))
    found = run("--update", capsys=capsys)
    assert found[0] == code
    assert found[1].startswith("nothing written to trainmark-baseline.toml: ")
    assert says in found[1]
    assert not Path("trainmark-baseline.toml").exists()


def test_an_update_keeps_the_cells_that_were_not_measured(store: History, capsys: pytest.CaptureFixture[str]) -> None:
    store.measure(100)
    run("--update", capsys=capsys)
    fresh = History(store.root.parent / "fresh")
    fresh.measure(50, cell=make_cell(precision="amp"))
    code, out, _ = run("--update", "--store", "fresh", capsys=capsys)
    assert (code, out.splitlines()[0]) == (0, "trainmark-baseline.toml: 2 cells: 1 added, 1 kept as before")
    assert Path("trainmark-baseline.toml").read_text().count("[[cell]]") == 2


# -- the next command --------------------------------------------------------------------------------------------------

CALM = [99.0, 99.5, 100.0, 100.5, 101.0, 100.0, 99.8, 100.2]
RUN = "trainmark run quick --store q --repeat"
CHECK = "trainmark check --baseline b.toml --store q"


@pytest.mark.parametrize(
    ("accepted", "now", "says", "following"),
    [
        (CALM, [98.4, 99.2], "run with --repeat 4", f"{RUN} 4 && {CHECK}"),
        ([99.3, 100.0, 100.7], [97.8, 98.5, 99.2], "update it from --repeat 16", None),
        ([97.0, 100.0, 103.0], [95.0, 99.0, 102.0], "more runs would not decide it", None),
        (CALM, [50.0, 100.0], "too noisy", f"{RUN} 3 && {CHECK}"),
        (CALM, [], "not measured since the baseline was accepted", f"{RUN} 8 && {CHECK}"),
    ],
)  # fmt: skip
def test_the_next_command_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepted: list[float], now: list[float], says: str,
    following: str | None, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    store, options = History(tmp_path / "q"), ("--store", "q", "--baseline", "b.toml")
    for speeds, option in ((accepted, ("--update",)), (now, ())):
        for run_id in store.measure(speeds):
            change_run(store.root, run_id, asked="trainmark run quick --store elsewhere --repeat 2")
        code, out, err = run(*option, *options, capsys=capsys)
    assert code == 4
    assert says in out
    assert err == ("" if following is None else f"next: {following}\n")


def test_the_next_command_keeps_the_suite_and_the_time(store: History, capsys: pytest.CaptureFixture[str]) -> None:
    for run_id in store.measure(100):
        change_run(store.root, run_id, asked="trainmark run quick")
    run("--update", capsys=capsys)
    _, _, err = run("t", "--since", "1600000000", capsys=capsys)
    assert err == "next: trainmark run quick --repeat 3 && trainmark check t --since 1600000000\n"


def test_runs_that_would_not_record_what_is_missing_are_not_proposed(
    store: History, capsys: pytest.CaptureFixture[str]
) -> None:
    store.measure(100, memory=2**30)
    run("--update", capsys=capsys)
    for run_id in store.measure(100):
        change_run(store.root, run_id, asked="trainmark run quick")
    code, out, err = run(capsys=capsys)
    assert (code, err) == (4, "")
    assert "no run recorded it" in out


# -- replay ------------------------------------------------------------------------------------------------------------


def test_replay_counts_alarms_of_the_same_code_apart(store: History, capsys: pytest.CaptureFixture[str]) -> None:
    for speed in (100, 100, 90):  # the third was a false alarm: the code is the same
        store.measure(speed, commit="a" * 40)
    store.measure(80, commit="b" * 40)  # this alarm may be right
    store.measure(80, commit="b" * 40, runs=1)  # cannot be a baseline
    store.measure(100, commit="c" * 40)
    (cell,) = read("--replay", capsys=capsys)["cells"]
    assert (cell["measurements"], cell["unusable"]) == (6, 1)
    assert (cell["same_code"]["judged"], cell["same_code"]["alarms"], cell["same_code"]["rate"]) == (2, 1, 0.5)
    assert (cell["code_changed"]["judged"], cell["code_changed"]["alarms"]) == (2, 1)
    code, out, _ = run("--replay", capsys=capsys)
    assert code == 0
    assert out.startswith("1 false alarm in 2 comparisons of the same code: 50.0%, at most 97.5% (95%)\n")


def test_replay_of_different_code_only_knows_no_false_alarm_rate(
    store: History, capsys: pytest.CaptureFixture[str]
) -> None:
    store.measure(100, commit="a" * 40)
    assert run("--replay", capsys=capsys)[0] == 4
    store.measure(100, commit="b" * 40)
    code, out, _ = run("--replay", capsys=capsys)
    assert code == 0
    assert out.startswith("false-alarm rate unknown: no cell was measured twice with the same code; 1 comparison")


@pytest.mark.parametrize(("hits", "trials"), [(0, 1), (0, 10), (1, 2), (3, 100), (99, 100), (5, 5)])
def test_the_upper_limit_is_exact(hits: int, trials: int) -> None:
    exact = 1.0 if hits == trials else float(beta.ppf(0.95, hits + 1, trials - hits))
    assert upper_limit(hits, trials) == pytest.approx(exact, abs=1e-9)
