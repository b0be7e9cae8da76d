"""`trainmark compare` of two frameworks names a winner only where the stored parity checks prove them equal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from comparing import make_runs, scaled
from making import make_cell
from trainmark.cli.main import main
from trainmark.controller.parity_code import check_code
from trainmark.controller.parity_proofs import keep_proof
from trainmark.frameworks import Framework
from trainmark.runfolder.parity import (
    LEAST_REPEATS,
    LEAST_STEPS,
    MATHEMATICS,
    ROUNDING,
    TRAJECTORY,
    WORK,
    Contestant,
    PairRecord,
    ParityRecord,
    StageRecord,
)
from trainmark.worker.training_code import training_code
from trainmark.workloads.registry import load_card

STORE = Path("runs")
VERSIONS = {"torch": "2.15.0", "paddle": "3.3.0"}
PRECISIONS = {MATHEMATICS: "fp64", ROUNDING: "fp32", TRAJECTORY: "fp32", WORK: "fp32"}
CHECK = "trainmark parity resnet50 --frameworks torch,paddle"


@pytest.fixture(autouse=True)
def _runs_of_two_installed_frameworks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """paddle is 20% slower."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Framework, "installed_version", lambda self: VERSIONS.get(self.name))
    for name, factor in (("torch", 1.0), ("paddle", 0.8)):
        facts = {"framework": f"{name} {VERSIONS[name]}", "training_code": training_code("resnet50", name)}
        make_runs(STORE, scaled(factor), cell=make_cell(framework=name), **facts)


def keep_check(*, failed: str = "", left_out: str = "") -> None:
    """As `trainmark parity` keeps it, of the installed code and versions."""
    stages = tuple(
        StageRecord(
            stage=stage,
            precision=precision,
            measured=7.0 if stage == failed else 0.0,
            limit=1.0,
            holds=stage != failed,
            worst="layer3.conv2",
            steps=LEAST_STEPS if stage == TRAJECTORY else None,
            repeats=LEAST_REPEATS if stage == TRAJECTORY else None,
        )
        for stage, precision in PRECISIONS.items()
        if stage != left_out
    )
    one, other = (
        Contestant(
            framework=name, recipe="reference", version=f"{name} {version}", code=training_code("resnet50", name)
        )
        for name, version in VERSIONS.items()
    )
    record = ParityRecord(
        workload="resnet50",
        card_version=load_card("resnet50").version,
        size="small",
        device="cpu",
        code=check_code(VERSIONS),
        unix_s=1.0,
        pairs=(PairRecord(one=one, other=other, stages=stages),),
    )
    keep_proof(STORE, record)


def compare(capsys: pytest.CaptureFixture[str]) -> tuple[str, str, str]:
    """The verdict, the first line and the last line of what is printed."""
    assert main(["compare", "framework=torch", "framework=paddle", "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert main(["compare", "framework=torch", "framework=paddle"]) == 0
    out, err = capsys.readouterr()
    return cell["verdict"], out.splitlines()[0], err.splitlines()[-1]


def test_without_a_check_there_is_no_winner_and_the_next_command_makes_it(capsys: pytest.CaptureFixture[str]) -> None:
    verdict, first, last = compare(capsys)
    assert verdict == "not_comparable"
    assert "not comparable" in first
    assert "slower" not in first
    assert last == f"next: {CHECK} --precision fp32"


@pytest.mark.parametrize("stage", PRECISIONS)
def test_a_stage_that_failed_is_named_and_there_is_no_winner(stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    keep_check(failed=stage)
    verdict, first, last = compare(capsys)
    assert verdict == "not_comparable"
    assert f"stage {stage}" in first
    assert "slower" not in first
    assert last.startswith(f"next: {CHECK} --stages {stage}")


@pytest.mark.parametrize("stage", PRECISIONS)
def test_a_stage_that_has_not_run_is_named_and_there_is_no_winner(
    stage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_check(left_out=stage)
    verdict, first, last = compare(capsys)
    assert verdict == "not_comparable"
    assert f": {stage}" in first
    assert "have not run" in first
    assert last.startswith(f"next: {CHECK} --stages {stage}")


def test_where_all_stages_hold_there_is_a_winner(capsys: pytest.CaptureFixture[str]) -> None:
    keep_check()
    verdict, first, _ = compare(capsys)
    assert (verdict, first) == ("slower", "B (framework=paddle) is 20.0% slower than A (framework=torch)")


def test_the_command_keeps_the_check_where_compare_will_look_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "framework=torch", "framework=paddle", "--store", "./runs"]
    assert main([*words, "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert cell["why"].endswith(f"run: {CHECK} --precision fp32 --store ./runs")
    assert main(words) == 0
    assert capsys.readouterr().err.splitlines()[-1] == f"next: {CHECK} --precision fp32 --store ./runs"


def test_what_is_too_noisy_has_no_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, speeds in (("torch", [5.0, 130.0]), ("paddle", [50.0, 51.0])):
        make_runs(tmp_path / "noisy", speeds, cell=make_cell(framework=name), framework=f"{name} {VERSIONS[name]}")
    words = ["compare", "framework=torch", "framework=paddle", "--store", "noisy"]
    assert main([*words, "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert (cell["verdict"], cell["a"]["value"]) == ("not_comparable", None)
    assert cell["ratio"] == {"value": None, "ci95": None}
    assert [doubt["side"] for doubt in cell["doubts"]] == ["a"]
    assert main(words) == 0
    assert "A is too noisy: its runs are between 5" in capsys.readouterr().out


def test_the_frameworks_themselves_are_not_listed_as_packages_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packages = {"torch": "2.15.0", "jax": "0.10.2", "numpy": "2.0"}
    for name, numpy in (("torch", "2.0"), ("jax", "2.1")):
        facts = {"framework": f"{name} {packages[name]}", "packages": {**packages, "numpy": numpy}}
        make_runs(tmp_path / "two", scaled(1.0), cell=make_cell(framework=name), **facts)
    assert main(["compare", "framework=torch", "framework=jax", "--store", "two"]) == 0
    named = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("code: ")]
    assert "numpy" in named
    assert not {"torch", "jax"} & set(named)
