"""The code that a command runs, for env.json: its repository, its script, and the packages of its interpreter.

Found from the path of the script, not from the working folder: `python repo/train.py` runs the code of `repo`.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from trainmark.controller.interpreter import read_interpreter
from trainmark.controller.script import Script, find_script, program_name
from trainmark.worker.environment import PACKAGES
from trainmark.worker.repository import Repository, describe_repository, find_repository

_MAX_SCRIPT_BYTES = 256 << 20
_NAMES = {"diff_sha256": "uncommitted changes", "sha256": "script", "pattern": "pattern"}
"""Of hashes, which tell a reader nothing."""
_SHOWN = 8
_MAX_CHANGES = 4


def describe_code(argv: Sequence[str], template: Sequence[str], *, cwd: Path) -> dict[str, Any]:
    """The fields `git`, `script`, `python` and `packages` of env.json. Never fails: what is unknown is None.

    `template` is the command as typed, with placeholders: the same for all cells of a sweep.
    """
    script = find_script(argv, cwd=cwd, environment=os.environ)
    installed = read_interpreter(
        script.interpreter, PACKAGES, module=script.module, cwd=cwd, variables=script.variables or {}
    )
    path = installed.module_path or script.path
    repository = find_repository(path) if path is not None else None
    return {
        "git": describe_repository(repository) if repository is not None else None,
        "script": _describe_script(script, path, repository, _normalise(template, path, repository, cwd)),
        "python": installed.python,
        "packages": dict(installed.packages),
    }


def without_names(git: dict[str, Any] | None) -> dict[str, Any] | None:
    """Only what is the code: a branch may be renamed while a sweep is interrupted."""
    return None if git is None else {name: value for name, value in git.items() if name != "branch"}


def describe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs in the settings of two sweeps, for a message: commit 1a2b3c4d -> 5e6f7a8b, script."""
    old, new = _leaves(before), _leaves(now)
    found = []
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            *_, last = name
            shown = [str(facts[name])[:_SHOWN] if name in facts else "none" for facts in (old, new)]
            found.append(_NAMES.get(last) or f"{last} {shown[0]} -> {shown[1]}")
    return list(dict.fromkeys(found))[:_MAX_CHANGES]


def _leaves(value: Any, name: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if isinstance(value, Mapping):
        parts = [_leaves(item, (*name, str(key))) for key, item in value.items()]
    elif isinstance(value, list):
        parts = [_leaves(item, (*name, str(place))) for place, item in enumerate(value)]
    else:
        return {name: value} if value is not None else {}
    return {key: leaf for part in parts for key, leaf in part.items()}


def _describe_script(script: Script, path: Path | None, repository: Repository | None, command: str) -> dict[str, Any]:
    return {
        "path": _name(path, repository) if path is not None else None,
        "sha256": _digest(path) if path is not None else _digest_text(script.text),
        "module": script.module,
        "command": command,
    }


def _name(path: Path, repository: Repository | None) -> str:
    """As the repository names it; outside of one only the file name, which tells nothing of this machine."""
    inside = _inside(path, repository)
    return inside if inside is not None else path.name


def _inside(path: Path, repository: Repository | None) -> str | None:
    try:
        return None if repository is None else path.resolve().relative_to(repository.top).as_posix()
    except (OSError, ValueError, RuntimeError):
        return None


def _normalise(template: Sequence[str], script: Path | None, repository: Repository | None, cwd: Path) -> str:
    """The command without what two checkouts of one repository, or two machines, have different.

    Programs lose their folder, and files of the repository are named from its top.
    """
    words = [_normalise_word(word, place, script, repository, cwd) for place, word in enumerate(template)]
    return shlex.join(words)


def _normalise_word(word: str, place: int, script: Path | None, repository: Repository | None, cwd: Path) -> str:
    flag, sign, value = word.partition("=") if word.startswith("-") else ("", "", word)
    if not value or (word.startswith("-") and not sign):
        return word
    program = PurePath(word).name if place == 0 and script is None else program_name(word)
    if program is not None:
        return program
    path = cwd / value
    try:
        is_script = script is not None and path.exists() and path.samefile(script)
        name = _name(path, repository) if is_script else _inside(path, repository) if path.exists() else None
    except (OSError, ValueError):
        return word
    return word if name is None else f"{flag}{sign}{name}"


def _digest(path: Path) -> str | None:
    digest, num_bytes = hashlib.sha256(), 0
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
                num_bytes += len(chunk)
                if num_bytes > _MAX_SCRIPT_BYTES:
                    return None
    except OSError:
        return None  # running it will say what is wrong
    return digest.hexdigest()


def _digest_text(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
