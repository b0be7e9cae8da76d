"""The sample CI script of the guide, run for real, and the pipelines that call it.

The script under test sets the clock that `mark` reads by hand: its speeds are stated, whatever the load of the machine.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from trainmark.analyse.tolerance import Metric
from trainmark.controller.baseline_file import read_baseline

ROOT = Path(__file__).parents[2]
FILES = ROOT / "docs" / "guides" / "ci"
TRAIN = """
import random, time
from pathlib import Path

STEP_S = {step_s}
runs = Path("runs-so-far")
number = len(runs.read_text()) if runs.exists() else 0
runs.write_text("x" * (number + 1))
rng, now = random.Random(number), 0.0
time.perf_counter = lambda: now

from trainmark import mark

usual = STEP_S * (1 + rng.gauss(0, 0.002))
for _ in range({steps}):
    now += usual * (1 + rng.gauss(0, 0.01))
    mark.step(samples=32)
"""


class Repository:
    """A user's repository with the script, and a `trainmark` on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        program = folder / "bin" / "trainmark"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m trainmark.cli.main "$@"\n')
        program.chmod(0o755)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")},
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
        }
        self._git("init", "--quiet")

    def commit(self, **changes: float) -> None:
        (self.folder / "train.py").write_text(TRAIN.format(**{"step_s": 0.1, "steps": 60, **changes}))
        self._git("add", "train.py")
        self._git("commit", "--quiet", "--allow-empty", "-m", "Train")

    def allow(self, tolerance: str) -> None:
        path = self.folder / "trainmark-baseline.toml"
        own, line, measured = path.read_text().partition("# ---- measured")
        path.write_text(f"{own}[[tolerance]]\n{tolerance}\n{line}{measured}")

    def _git(self, *words: str) -> None:
        who = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
        subprocess.run(["git", *who, *words], cwd=self.folder, check=True)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )

    def check(self) -> subprocess.CompletedProcess[str]:
        return self.run("sh", str(FILES / "check.sh"), "--", sys.executable, "train.py")


def test_green_on_no_change_red_on_a_slow_down_and_4_on_nothing(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.commit()
    command = ["trainmark", "run", "--repeat", "3", "--", sys.executable, "train.py"]
    assert repository.run(*command).returncode == 0
    assert repository.run("trainmark", "check", "--update").returncode == 0
    repository.allow("first_step = false")  # by the real clock, which depends on the load of the machine

    repository.commit()
    green = repository.check()
    assert green.returncode == 0, green.stdout + green.stderr
    assert "\npass: no regression in 1 cell\n" in green.stdout
    assert ET.parse(tmp_path / "trainmark.xml").getroot().get("failures") == "0"

    repository.commit(step_s=0.105)
    red = repository.check()
    assert red.returncode == 3, red.stdout + red.stderr
    (said,) = [line for line in red.stdout.splitlines() if line.startswith("regression: ")]
    assert said.startswith("regression: train.py, 1 x 1 cpu: throughput: 4.")
    assert "% slower than the baseline (95% interval -" in said
    assert said.endswith("2.0% is allowed")
    assert ET.parse(tmp_path / "trainmark.xml").getroot().get("failures") == "1"

    red_junit = (tmp_path / "trainmark.xml").read_bytes()

    repository.commit(steps=0)
    nothing = repository.check()
    assert nothing.returncode == 4, nothing.stdout + nothing.stderr
    assert "it has no throughput" in nothing.stdout
    assert ET.parse(tmp_path / "trainmark.xml").getroot().get("errors") == "1"

    junitparser = pytest.importorskip("junitparser", reason="junitparser is not installed; the locks have it")
    failures = [
        (case.name, entry.type, entry.message)
        for suite in junitparser.JUnitXml.fromstring(red_junit)
        for case in suite
        for entry in case.result
    ]
    assert failures == [("train.py, 1 x 1 cpu: throughput", "regression", said.partition("1 x 1 cpu: ")[2])]


def test_a_failed_run_is_1_and_bad_input_2(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    (tmp_path / "train.py").write_text("raise SystemExit(7)")
    (tmp_path / "trainmark-baseline.toml").write_text("schema = 1\n")
    repository.environment["REPEAT"] = "1"
    failed = repository.check()
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "run failed: train.py, 1 x 1 cpu: 1 of 1 run failed" in failed.stdout
    assert repository.run("sh", str(FILES / "check.sh"), "no-such-suite").returncode == 2


# -- the files of the guide --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["check.sh", "github-actions.yml", "gitlab-ci.yml"])
def test_the_guide_shows_the_files_as_they_are(name: str) -> None:
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text()
    assert f"\n{(FILES / name).read_text()}```\n" in guide


def test_the_tolerances_of_the_guide_are_valid(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text()
    block = guide[guide.index("    schema = 1\n") :].split("\n\nBelow the line")[0]
    path = tmp_path / "baseline.toml"
    path.write_text(textwrap.dedent(block))
    first, second = read_baseline(path).rules
    assert first.values == {Metric.THROUGHPUT: 0.05}
    assert second.is_for("resnet50 torch reference amp, 1 x 8, batch 32, synthetic")
    assert second.values == {Metric.THROUGHPUT: 0.01, Metric.FIRST_STEP: None}


def read_yaml(name: str) -> Any:
    return yaml.safe_load((FILES / name).read_text())


def test_the_github_workflow_is_whole() -> None:
    workflow = read_yaml("github-actions.yml")
    assert set(workflow[True]) == {"pull_request", "workflow_dispatch"}  # YAML 1.1 reads the key `on` as true
    (job,) = workflow["jobs"].values()
    assert {"runs-on", "steps"} <= set(job)
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    commands = "\n".join(step.get("run", "") for step in job["steps"])
    assert "sh ci/check.sh -- " in commands
    assert 'trainmark check --store "$STORE" --update' in commands
    assert workflow["concurrency"]["cancel-in-progress"] is False


def test_the_gitlab_pipeline_is_whole() -> None:
    pipeline = read_yaml("gitlab-ci.yml")
    job, baseline = pipeline["training-speed"], pipeline["training-speed-baseline"]
    assert job["artifacts"]["reports"]["junit"] == "trainmark.xml"
    assert job["artifacts"]["when"] == "always"
    assert baseline["extends"] == "training-speed"
    for one in (job, baseline):
        assert all(isinstance(line, str) for line in one["script"])
    assert job["resource_group"]
