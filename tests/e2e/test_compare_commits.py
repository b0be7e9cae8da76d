"""From two commits of a script to a verdict, with real processes, git and stores."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.launch import supervise

SCRIPT = """
import random
import sys
line = "Epoch: [0][{{}}/60]\\tTime  {{:.5f}} ( 0.1)\\tLoss 6.9 (6.9)\\n"
sys.stdout.write("".join(line.format(step, {seconds} * random.uniform(0.99, 1.01)) for step in range(60)))
"""
"""Prints durations of its own, in one piece, so that the time between its lines says nothing: the verdict does not
depend on the load of this machine."""


def git(folder: Path, *words: str) -> None:
    names = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, env={**os.environ, **names})


def commit(repository: Path, seconds: float) -> None:
    (repository / "train.py").write_text(SCRIPT.format(seconds=seconds))
    git(repository, "add", "train.py")
    git(repository, "commit", "-m", f"{seconds} s a step")


def test_a_slower_commit_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervise, "_POLL_S", 0.02)
    repository = tmp_path / "project"
    repository.mkdir()
    monkeypatch.chdir(tmp_path)  # the folder above the repository, as a user may do
    git(repository, "init", "-b", "main")
    commit(repository, 0.1)
    measure = ["run", "--repeat", "2", "--batch-size", "32", "--", sys.executable, "project/train.py"]
    assert main(measure) == 0
    git(repository, "checkout", "-b", "feature")
    commit(repository, 0.11)
    assert main(measure) == 0
    capfd.readouterr()
    assert main(["compare", "main", "feature"]) == 0
    out, err = capfd.readouterr()
    assert re.match(r"B \(feature\) is (8|9)\.\d% slower than A \(main\)\n", out)
    assert "code: commit" in out
    assert err.rstrip().endswith("next: trainmark report")
    assert main(["compare", "runs@main", "runs@feature", "--json"]) == 0
    (found,) = json.loads(capfd.readouterr().out)["comparisons"]
    assert (found["verdict"], found["runs"]) == ("slower", [2, 2])
    assert {item["axis"] for item in found["differences"]} == {"code"}
