"""Suite files: TOML from a stranger, or one of those shipped with the package."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from trainmark.errors import Fault, InputError, SpecError

_MAX_BYTES = 1_000_000
_PACKAGE = Path(__file__).resolve().parent.parent


def suites_folder() -> Path:
    """Inside an installed package, or at the top of a checkout."""
    installed = _PACKAGE / "suites"
    return installed if installed.is_dir() else _PACKAGE.parent.parent / "suites"


def shipped_suites() -> dict[str, Path]:
    return {path.stem: path for path in sorted(suites_folder().glob("*.toml"))}


def read_toml(path: Path, *, what: str = "suite") -> dict[str, Any]:
    """`what` the file is to be, for the message."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"cannot read the {what} {path}", why=why, hint="give the path of a TOML file") from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"the {what} {path} is over 1 MB", hint="it is a short TOML file; is this the right one?")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))  # editors of Windows put a mark in front
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        problem = "lists in lists, too deep" if isinstance(error, RecursionError) else str(error)
        fault = Fault(where=str(path), problem=problem, hint="TOML syntax: key = value, lists in []")
        raise SpecError(f"{path} is not TOML", [fault]) from error
