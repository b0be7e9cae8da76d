"""What a run says about the code under test: real repositories, real runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.launch import supervise

TRAIN = """
import sys
from speed import SECONDS
line = "Epoch: [0][{}/12]\\tTime  {:.4f} ( 0.1)\\tLoss {:.4f} (1.0)\\n"
sys.stdout.write("".join(line.format(i, SECONDS + i % 3 / 1000, 1 + 1 / (i + 1)) for i in range(12)))
"""
AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "_POLL_S", 0.02)


class Repository:
    """A training script and the module that decides how fast it is."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "-q", "-b", "main")
        (root / "train.py").write_text(TRAIN)

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *AUTHOR, *words], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, seconds: float) -> str:
        (self.root / "speed.py").write_text(f"SECONDS = {seconds}\n")
        self.git("add", "-A")
        self.git("commit", "-qm", f"takes {seconds} s")
        return self.git("rev-parse", "HEAD")


def measure(store: Path, *words: str, options: tuple[str, ...] = ()) -> None:
    # Without bytecode: a cached module would hide an edit within the same second.
    command = [sys.executable, "-B", *words, "-b", "32"]
    assert main(["run", "--store", str(store), "--repeat", "2", *options, "--", *command]) == 0


def test_two_commits_measured_from_the_folder_above_are_two_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were averaged: the commit was looked for in the working folder, and the script itself is the same."""
    monkeypatch.chdir(tmp_path)
    repository, store = Repository(tmp_path / "repo"), tmp_path / "runs"
    commits = []
    for seconds in (0.02, 0.04):
        commits.append(repository.commit(seconds))
        measure(store, "repo/train.py")
    capsys.readouterr()
    assert main(["show", "--store", str(store)]) == 0
    shown = capsys.readouterr().out
    assert "(runs: 4)" not in shown
    assert [commit[:8] in shown for commit in commits] == [True, True]
    assert shown.count("(runs: 2)") == 2
