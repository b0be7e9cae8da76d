"""Suite and cluster files: TOML from a stranger, or a suite shipped with the package."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from trainmark.errors import Fault, InputError, SpecError
from trainmark.spec.checking import Checker
from trainmark.spec.cluster import CLUSTER_KEYS

_MAX_BYTES = 1_000_000
_PACKAGE = Path(__file__).resolve().parent.parent


def suites_folder() -> Path:
    """Inside an installed package, or at the top of a checkout."""
    installed = _PACKAGE / "suites"
    return installed if installed.is_dir() else _PACKAGE.parent.parent / "suites"


def shipped_suites() -> dict[str, Path]:
    return {path.stem: path for path in sorted(suites_folder().glob("*.toml"))}


def read_toml(path: Path, *, what: str = "suite") -> dict[str, Any]:
    """`what` names the kind of file in messages."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"cannot read the {what} {path}", why=why, hint="pass the path of a TOML file") from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"the {what} {path} is larger than 1 MB", hint="is this the right file?")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))  # editors on Windows write a byte order mark
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        fault = Fault(where=str(path), problem=problem, hint="TOML syntax: key = value, lists in []")
        raise SpecError(f"{path} is not valid TOML", [fault]) from error


def read_cluster_file(path: Path) -> dict[str, Any]:
    """The keys are at the top of the file, or in its [cluster] table."""
    raw = read_toml(path, what="cluster file")
    table = raw.get("cluster", raw)
    faults: list[Fault] = []
    if isinstance(table, dict):
        Checker(table, "", faults).refuse_unknown(CLUSTER_KEYS)
    else:
        faults.append(Fault(where="cluster", problem="must be a table", hint="write [cluster] and its keys below"))
    if faults:
        raise SpecError(f"{path} is not a valid cluster file", faults)
    return dict(table)
