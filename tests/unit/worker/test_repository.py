"""The commit and the changes of real repositories, also of those that are broken or hostile."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from trainmark.worker import repository
from trainmark.worker.repository import describe_repository, find_repository


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false",
                "-c", "protocol.file.allow=always")  # fmt: skip
    done = subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make(root: Path, **files: str) -> str:
    """A repository with one commit, whose id is returned."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    for name, text in {"train.py": "x = 1\n", "README.md": "words\n", **files}.items():
        (root / name).write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return git(root, "rev-parse", "HEAD")


def describe(path: Path, **options: Any) -> dict[str, Any]:
    found = find_repository(path)
    assert found is not None
    facts = describe_repository(found, **options)
    assert facts is not None
    return facts


def test_a_clean_tree(tmp_path: Path) -> None:
    commit = make(tmp_path / "r")
    (tmp_path / "r" / "sub").mkdir()
    facts = describe(tmp_path / "r" / "sub")
    assert facts == {"commit": commit, "branch": "main", "diff_sha256": None, "is_diff_known": True}
    assert find_repository(tmp_path) is None


def test_only_changes_of_tracked_files_count(tmp_path: Path) -> None:
    root = tmp_path / "r"
    make(root)
    (root / "notes.txt").write_text("untracked\n")
    os.utime(root / "train.py", (1, 1))  # only its time stamp, as in a copy
    assert describe(root)["diff_sha256"] is None
    found = []
    for text in ("x = 2\n", "x = 3\n", "x = 2\n"):
        (root / "train.py").write_text(text)
        found.append(describe(root)["diff_sha256"])
    assert found[0] == found[2] != found[1]
    git(root, "add", "-A")
    staged = describe(root)["diff_sha256"]
    assert staged not in (None, found[0])  # notes.txt is tracked now
    (root / "train.py").unlink()
    assert describe(root)["diff_sha256"] not in (None, staged)


def test_changes_under_some_folders(tmp_path: Path) -> None:
    """Editing the docs of trainmark does not change what it measures."""
    root = tmp_path / "r"
    make(root)
    (root / "src").mkdir()
    (root / "src" / "a.py").write_text("a = 1\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "second")
    (root / "README.md").write_text("other words\n")
    assert describe(root, under=["src"])["diff_sha256"] is None
    assert describe(root)["diff_sha256"] is not None
    (root / "src" / "a.py").chmod(0o755)
    assert describe(root, under=["src"])["diff_sha256"] is not None


def test_a_work_tree_a_detached_head_packed_references_and_a_shallow_clone(tmp_path: Path) -> None:
    root = tmp_path / "r"
    first = make(root)
    git(root, "worktree", "add", "-q", "-b", "team/other", str(tmp_path / "tree"))
    git(root, "pack-refs", "--all")
    assert (describe(tmp_path / "tree")["commit"], describe(tmp_path / "tree")["branch"]) == (first, "team/other")
    assert describe(root)["commit"] == first
    git(root, "commit", "-q", "--allow-empty", "-m", "second")
    git(root, "checkout", "-q", "--detach")
    assert (describe(root)["commit"], describe(root)["branch"]) == (git(root, "rev-parse", "HEAD"), None)
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{root}", "shallow")
    assert describe(tmp_path / "shallow") == {**describe(root), "branch": describe(tmp_path / "shallow")["branch"]}


def test_a_submodule_is_a_repository_of_its_own_and_its_commit_is_a_change(tmp_path: Path) -> None:
    inner = make(tmp_path / "inner")
    make(tmp_path / "r")
    git(tmp_path / "r", "submodule", "--quiet", "add", str(tmp_path / "inner"), "lib")
    git(tmp_path / "r", "commit", "-qm", "lib")
    assert describe(tmp_path / "r" / "lib" / "train.py")["commit"] == inner
    assert describe(tmp_path / "r")["diff_sha256"] is None
    found = set()
    for _ in range(2):
        git(tmp_path / "r" / "lib", "commit", "-q", "--allow-empty", "-m", "next")
        found.add(describe(tmp_path / "r")["diff_sha256"])
    assert len(found - {None}) == 2


def test_nothing_of_a_hostile_repository_is_run(tmp_path: Path) -> None:
    root, seen = tmp_path / "r", tmp_path / "seen"
    root.mkdir()
    command = f"sh -c 'echo $0 >> {seen}; cat' x"
    git(root, "init", "-q")
    (root / ".gitattributes").write_text("*.py filter=evil diff=evil\n*.txt filter=it=s\n")
    for name in ("a.py", "b.txt"):
        (root / name).write_text("1\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    for name in ("filter.evil.clean", "filter.evil.process", "filter.it=s.clean", "diff.evil.command", "core.pager",
                 "diff.evil.textconv", "diff.external", "core.fsmonitor", "core.sshCommand"):  # fmt: skip
        git(root, "config", name, command)
    git(root, "config", "filter.evil.required", "true")
    for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout"):
        path = root / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{command}\n")
        path.chmod(0o755)
    os.utime(root / "b.txt", (1, 1))
    assert describe(root)["diff_sha256"] is None
    (root / "a.py").write_text("2\n")
    before = {path: path.stat().st_mtime_ns for path in (root / ".git").rglob("*")}
    assert describe(root)["diff_sha256"] is not None
    assert not seen.exists()
    assert {path: path.stat().st_mtime_ns for path in (root / ".git").rglob("*")} == before, "it changed the repository"


def test_variables_of_a_hook_that_started_us_do_not_mislead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = make(tmp_path / "r")
    make(tmp_path / "other", **{"more.py": ""})
    for name, value in (("GIT_DIR", ".git"), ("GIT_WORK_TREE", "."), ("GIT_INDEX_FILE", "x"), ("GIT_TRACE", "1")):
        monkeypatch.setenv(name, str(tmp_path / "other" / value))
    assert describe(tmp_path / "r") == {
        "commit": commit, "branch": "main", "diff_sha256": None, "is_diff_known": True,
    }  # fmt: skip


def test_without_git_the_commit_is_known_and_the_changes_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = make(tmp_path / "r")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert describe(tmp_path / "r") == {
        "commit": commit, "branch": "main", "diff_sha256": None, "is_diff_known": False,
    }  # fmt: skip


def test_a_repository_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git that never answers, in place of one that looks at a million files."""
    commit = make(tmp_path / "r")
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(repository, "_LIMIT_S", 0.2)
    facts = describe(tmp_path / "r")
    assert (facts["commit"], facts["is_diff_known"]) == (commit, False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("HEAD", ""),
        ("HEAD", "ref: refs/heads/../../../etc/passwd"),
        ("HEAD", "ref: refs/heads/missing"),
        ("HEAD", "\xff" * 100),
        ("index", "not an index"),
        ("config", "[core\nbroken"),
    ],
)
def test_broken_repositories(name: str, text: str, tmp_path: Path) -> None:
    make(tmp_path / "r")
    (tmp_path / "r" / ".git" / name).write_text(text)
    found = find_repository(tmp_path / "r")
    facts = describe_repository(found) if found is not None else None
    assert facts is None or facts["is_diff_known"] is False


def test_what_is_no_repository(tmp_path: Path) -> None:
    """An empty one, a bare one, a loop of links, an installed package, a file that points nowhere."""
    git(tmp_path, "init", "-q", "empty")
    found = find_repository(tmp_path / "empty")
    assert found is not None
    assert describe_repository(found) is None
    make(tmp_path / "r")
    git(tmp_path, "clone", "-q", "--bare", "r", "bare")
    assert find_repository(tmp_path / "bare") is None
    package = tmp_path / "r" / ".venv" / "lib" / "python3.12" / "site-packages" / "torch"
    package.mkdir(parents=True)
    assert find_repository(package) is None
    (tmp_path / "loop").symlink_to("loop")
    assert find_repository(tmp_path / "loop") is None
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / ".git").write_text("gitdir: /nowhere\n")
    assert find_repository(tmp_path / "lost") is None
    shutil.rmtree(tmp_path / "empty")
    assert find_repository(tmp_path / "empty" / "x.py") is None
