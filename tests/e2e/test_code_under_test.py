"""What a run says about the code under test: real repositories, real runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainmark.cli.main import main
from trainmark.controller import execute
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
    repeat = () if "--repeat" in options else ("--repeat", "2")
    assert main(["run", "--store", str(store), *repeat, *options, "--", *command]) == 0


def show(store: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["show", "--json", "--store", str(store)]) == 0
    results: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["results"]
    return results


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
    assert [commit[:8] in shown for commit in commits] == [True, True]
    results = show(store, capsys)
    found = {result["identity"]["commit"]: result["pooled"] for result in results}
    assert list(found) == commits
    assert [pooled["runs"] for pooled in found.values()] == [2, 2]
    fast, slow = (pooled["value"] for pooled in found.values())
    assert fast / slow == pytest.approx(41 / 21, rel=0.05)
    identities = [result["identity"] for result in results]
    assert len({identity["work"] for identity in identities}) == len({found["machine"] for found in identities}) == 1
    assert {identity["script"] for identity in identities} == {"train.py"}
    assert {(identity["dirty"], identity["branch"]) for identity in identities} == {(False, "main")}
    assert all(identity["time"].endswith("Z") and identity["host"] for identity in identities)


def test_every_way_to_start_a_script_finds_its_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From inside and outside, as a file and as a module, of two checkouts: one line with one work and one code."""
    repository, store = Repository(tmp_path / "repo"), tmp_path / "runs"
    commit = repository.commit(0.02)
    repository.git("worktree", "add", "-q", "--detach", str(tmp_path / "other"))
    once = ("--repeat", "1", "--image", "team/train@sha256:" + "ab" * 32)
    for cwd, words in (
        (tmp_path, ["other/train.py"]),
        (tmp_path / "repo", ["train.py"]),
        (tmp_path / "repo", [str(tmp_path / "repo" / "train.py")]),
    ):
        monkeypatch.chdir(cwd)
        measure(store, *words, options=once)
    (tmp_path / "repo" / "notes.txt").write_text("untracked: changes nothing\n")
    measure(store, "-m", "train", options=once)
    results = show(store, capsys)
    assert {result["identity"]["commit"] for result in results} == {commit}
    assert len({result["identity"]["code"] for result in results}) == 1
    assert [result["pooled"]["runs"] for result in results] == [3, 3, 3, 1]  # -m train is another command
    image = results[0]["identity"]["image"]
    assert image == {"name": "team/train", "digest": "sha256:" + "ab" * 32, "is_given": True}


def test_an_edit_and_an_edited_script_outside_a_repository_are_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    repository, store = Repository(tmp_path / "repo"), tmp_path / "runs"
    repository.commit(0.02)
    (tmp_path / "repo" / "speed.py").write_text("SECONDS = 0.03\n")
    script = tmp_path / "alone.py"
    for words, text in ((["repo/train.py"], None), (["alone.py"], "0.02"), (["alone.py"], "0.04")):
        if text is not None:
            script.write_text(TRAIN.replace("from speed import SECONDS", f"SECONDS = {text}"))
        measure(store, *words, options=("--repeat", "1"))
    edited, first, second = (result["identity"] for result in show(store, capsys))
    assert edited["dirty"] is True
    assert (first["commit"], first["dirty"]) == (None, None)
    assert first["work"] == second["work"]
    assert first["code"] != second["code"]


def test_a_sweep_is_not_continued_with_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of the runs would be of one commit and half of the other."""
    monkeypatch.chdir(tmp_path)
    repository, store = Repository(tmp_path / "repo"), tmp_path / "runs"
    first = repository.commit(0.02)
    make_run = execute._Runner.run
    num_made = 0

    def stop_after_one(self: Any, *words: Any, **more: Any) -> Any:
        nonlocal num_made
        num_made += 1
        if num_made == 2:
            raise KeyboardInterrupt
        return make_run(self, *words, **more)

    monkeypatch.setattr(execute._Runner, "run", stop_after_one)
    command = ["run", "--store", str(store), "--repeat", "2", "--", sys.executable, "-B", "repo/train.py", "-b", "32"]
    assert main(command) == 130
    assert "continuing" not in capsys.readouterr().err
    second = repository.commit(0.04)
    assert main(command) == 0
    said = capsys.readouterr().err
    assert "not continuing the sweep of" in said
    assert f"commit {first[:8]} -> {second[:8]}" in said
    results = show(store, capsys)
    assert [result["identity"]["commit"] for result in results] == [first, second, second]
    assert [result["pooled"]["runs"] for result in results] == [1, 2, 2]
