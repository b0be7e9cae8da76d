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


def read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"cannot read the suite {path}", why=why, hint="give the path of a TOML file") from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"the suite {path} is over 1 MB", hint="a suite is a short TOML file; is this the right one?")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        fault = Fault(where=str(path), problem=str(error), hint="TOML syntax: key = value, lists in []")
        raise SpecError(f"{path} is not TOML", [fault]) from error
