"""The git repository that a file belongs to: its commit, its branch, and a hash of what was changed since.

A repository may come from a stranger, so nothing that it configures is ever run: no hook, filter, external diff, file
system monitor or pager. It may also be huge, broken, owned by another user, or on a machine without git. None of this
may fail or delay a run, so everything here has a limit and an answer for "unknown".
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LIMIT_S = 10.0
"""For all questions about one repository together."""
_MAX_CHANGED_BYTES = 256 << 20
_MAX_TEXT_BYTES = 1 << 20
_MAX_PACKED_BYTES = 64 << 20
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MAX_LINKS = 5
_INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True, kw_only=True)
class Repository:
    top: Path
    """The folder of the work tree."""
    git_dir: Path
    """Of this work tree: has HEAD and the index."""


def find_repository(path: Path) -> Repository | None:
    """The one that holds the file or folder; None if there is none, or if the file is part of an installed package."""
    try:
        resolved = path.resolve()
        if any(part in _INSTALLED for part in resolved.parts):
            return None  # a virtual environment inside a repository does not make its packages part of it
        for folder in (resolved, *resolved.parents):
            git_dir = _git_dir(folder / ".git")
            if git_dir is not None:
                return Repository(top=folder, git_dir=git_dir)
    except (OSError, RuntimeError, ValueError):
        return None  # a folder that may not be read, a loop of links, a name with a NUL
    return None


def describe_repository(repository: Repository, *, under: Sequence[str] = ()) -> dict[str, Any] | None:
    """For env.json; None if it has no commit yet or cannot be read.

    Only changes of tracked files count. `under` limits them to some folders, relative to the top.
    """
    git = _Git(repository)
    branch, commit = _read_head(repository.git_dir)
    commit = commit or git.commit()
    if commit is None:
        return None
    changes = _hash_changes(git, under)
    return {
        "commit": commit,
        "branch": branch,
        "diff_sha256": changes or None,
        "is_diff_known": changes is not None,
    }


def tracked_files(repository: Repository, paths: Sequence[Path]) -> set[Path]:
    """Those of `paths` that belong to the repository; empty if git does not answer."""
    inside = [path for path in paths if path.is_relative_to(repository.top)]
    names = [str(path.relative_to(repository.top)) for path in inside]
    listed = _Git(repository).ask("ls-files", "-z", "--", *names) if names else b""
    found = {os.fsdecode(name) for name in (listed or b"").split(b"\0")}
    return {path for path, name in zip(inside, names, strict=True) if name in found}


# -- HEAD, without git -------------------------------------------------------------------------------------------------


def _git_dir(path: Path) -> Path | None:
    """`.git` is a folder, or in submodules and further work trees a file with the name of one."""
    if not path.is_dir():
        text = _read_text(path) if path.is_file() else None
        if text is None or not text.startswith("gitdir:"):
            return None
        path = path.parent / text.removeprefix("gitdir:").strip()
    return path if (path / "HEAD").is_file() else None


def _read_head(git_dir: Path) -> tuple[str | None, str | None]:
    """Branch and commit. Works without git, and where git refuses a repository of another user."""
    common = _read_text(git_dir / "commondir")
    folders = [git_dir, *([git_dir / common.strip()] if common else [])]
    name, branch = "HEAD", None
    for _ in range(_MAX_LINKS):
        text = next((found for folder in folders if (found := _read_text(folder / name)) is not None), None)
        text = (text if text is not None else _packed_ref(folders[-1], name) or "").strip()
        if _COMMIT.fullmatch(text):
            return branch, text
        if not text.startswith("ref:"):
            return branch, None
        name = text.removeprefix("ref:").strip()
        if not name.startswith("refs/") or ".." in name.split("/"):
            return branch, None
        if name.startswith("refs/heads/") and name != "refs/heads/.invalid":  # which stands for the newer reftable
            branch = branch or name.removeprefix("refs/heads/")
    return branch, None


def _packed_ref(folder: Path, name: str) -> str | None:
    text = _read_text(folder / "packed-refs", most=_MAX_PACKED_BYTES) or ""
    found = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", text, re.MULTILINE)
    return found[1] if found else None


def _read_text(path: Path, *, most: int = _MAX_TEXT_BYTES) -> str | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as file:
            return file.read(most).decode(errors="replace")
    except (OSError, ValueError):
        return None


# -- changes, with git -------------------------------------------------------------------------------------------------


class _Git:
    """Questions that run nothing of the repository and change nothing in it."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self._end_s = time.monotonic() + _LIMIT_S
        self._settings = {
            "safe.directory": "*",  # a mounted repository belongs to another user than root in the container
            "core.fsmonitor": "false",
            "core.hooksPath": os.devnull,
            "core.untrackedCache": "false",
            "submodule.recurse": "false",
        }

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self._end_s

    def commit(self) -> str | None:
        """For formats of references that this module does not read."""
        text = (self.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}") or b"").decode(errors="replace").strip()
        return text if _COMMIT.fullmatch(text) else None

    def disable_filters(self) -> bool:
        """A clean filter is a command that git would run to compare a file with the index."""
        listed = self.ask("config", "-z", "--name-only", "--get-regexp", r"^filter\.", none_is=1)
        if listed is None:
            return False
        for name in listed.decode(errors="surrogateescape").split("\0"):
            if name.endswith((".clean", ".smudge", ".process")):
                self._settings[name] = ""
            elif name.endswith(".required"):
                self._settings[name] = "false"
        return True

    def ask(self, *words: str, none_is: int = 0) -> bytes | None:
        """What git prints; None if it fails, is missing, or takes too long. `none_is` exits with an empty answer."""
        program = shutil.which("git")
        if program is None:
            return None
        argv = [program, "--no-pager", "--no-optional-locks", "--literal-pathspecs", *words]
        try:
            done = subprocess.run(
                argv,
                cwd=self.repository.top,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=max(0.1, self._end_s - time.monotonic()),
                check=False,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        return done.stdout if done.returncode in (0, none_is) else None

    def _environment(self) -> dict[str, str]:
        """Without GIT_DIR and others, which a hook that starts us would pass on, and without the user's settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        settings = {"GIT_CONFIG_COUNT": str(len(self._settings))}
        for number, (name, value) in enumerate(self._settings.items()):
            settings |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return {
            **kept,
            **settings,
            "GIT_DIR": str(self.repository.git_dir),
            "GIT_WORK_TREE": str(self.repository.top),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_NO_LAZY_FETCH": "1",  # a partial clone would ask the network
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }


def _hash_changes(git: _Git, under: Sequence[str]) -> str | None:
    """A short hash of what `git diff HEAD` would show; empty if that is nothing, None if it is not known."""
    if not git.disable_filters():
        return None
    raw = git.ask(
        "diff-index", "--raw", "-z", "--no-renames", "--full-index", "--ignore-submodules=dirty", "HEAD", "--", *under
    )
    if raw is None:
        return None
    digest, is_changed, num_bytes = hashlib.sha256(), False, 0
    for path, status, index_id in _changed_paths(raw):
        content = _read_content(git.repository.top / os.fsdecode(path))
        num_bytes += len(content or b"")
        if git.is_late or num_bytes > _MAX_CHANGED_BYTES:
            return None
        if status == b"M" and content is not None and _is_same(content, index_id):
            continue  # only its time stamp differs, as in a copied repository
        is_changed = True
        for part in (path, status, index_id, content if content is not None else b"absent"):
            digest.update(str(len(part)).encode() + b":" + part)
    return digest.hexdigest()[:12] if is_changed else ""


def _changed_paths(raw: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Path, status, and the id of the content in HEAD, of each line `:mode mode id id status NUL path NUL`."""
    fields = raw.split(b"\0")
    for facts, path in zip(fields[::2], fields[1::2], strict=False):
        parts = facts.split(b" ")
        if len(parts) == 5:
            same_mode = parts[0].lstrip(b":") == parts[1]
            yield path, parts[4] if same_mode else parts[4] + parts[1], parts[2]


def _read_content(path: Path) -> bytes | None:
    """Of a link, where it leads; of a submodule, its commit; None for a missing file."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return os.fsencode(path.readlink())
        if stat.S_ISDIR(mode) and (git_dir := _git_dir(path / ".git")) is not None:
            return (_read_head(git_dir)[1] or "").encode()
        if not stat.S_ISREG(mode):
            return None
        with path.open("rb") as file:
            return file.read(_MAX_CHANGED_BYTES + 1)
    except OSError:
        return None


def _is_same(content: bytes, object_id: bytes) -> bool:
    kind = hashlib.sha256 if len(object_id) == 64 else hashlib.sha1
    return kind(b"blob %d\0" % len(content) + content).hexdigest().encode() == object_id
