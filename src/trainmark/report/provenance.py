"""Where a number comes from: commit, framework version, host and time, for every format."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from trainmark.analyse.identity import framework_version, identity_of
from trainmark.analyse.origin import Origin, origin_of
from trainmark.analyse.table import Line
from trainmark.report.words import WORDS
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT

_SHORT = 8
_MAX_NAMED = 3
_MAX_UNIX_S = 1e11
"""What `time.gmtime` can certainly convert."""
_VERSIONS = ("python", "cuda", "cudnn", "nccl", "driver", "trainmark")


def describe_identity(row: RunRow) -> dict[str, Any]:
    """For `--json`: the hashes that decide what may be averaged, and the facts that people ask for."""
    own, environment = identity_of(row), row.environment
    code, machine = own.facts["code"], own.facts["machine"]
    packages = environment.get("packages")
    image = environment.get("image")
    git = environment.get("git")
    is_diff_known = isinstance(git, dict) and git.get("is_diff_known") is not False and "commit" in code
    return {
        "work": own.work,
        "code": own.code,
        "machine": own.machine,
        "commit": code.get("commit"),
        "dirty": "changes" in code if is_diff_known else None,
        "changes": code.get("changes"),
        "branch": code.get("branch"),
        "script": code.get("script"),
        "script_sha256": code.get("script content"),
        "framework": framework_version(row),
        "versions": {
            **(packages if isinstance(packages, dict) else {}),
            **{name: code[name] for name in _VERSIONS if name in code},
        },
        "image": image if isinstance(image, dict) else None,
        "host": machine.get("host"),
        "gpus": machine["gpus"].split(", ") if "gpus" in machine else [],
        "time": to_utc(row.started_unix_s),
    }


def to_utc(unix_s: float | None) -> str | None:
    """2026-11-16T03:12:45Z"""
    if unix_s is None or not 0 <= unix_s < _MAX_UNIX_S:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_s))


# -- in tables ---------------------------------------------------------------------------------------------------------


def say_origin(row: RunRow) -> tuple[str, str, str, str]:
    """2026-11-16 03:12, vm, torch 2.15.0, a1b2c3d4+e5f6a7b8: a commit with changes."""
    measured, own = ABSENT if row.started_unix_s is None else _minute(row.started_unix_s), origin_of(row)
    return measured, own.host or ABSENT, own.version or ABSENT, _commit(own) or ABSENT


def say_provenance(lines: Sequence[Line], lang: str) -> str | None:
    """measured 2026-11-16 03:12 to 03:20 UTC; host vm; torch 2.15.0; commit a1b2c3d4

    One line below a table, so that a number never leaves without it. None if nothing is known.
    """
    words, rows = WORDS[lang], [run for line in lines for run in line.runs]
    origins = list(dict.fromkeys(origin_of(row) for row in rows))
    known = [
        _name_all(words["host"], (origin.host for origin in origins)),
        _name_all("", (origin.version for origin in origins)),
        _name_all(words["commit"], (_commit(origin) for origin in origins)),
    ]
    times = sorted(run.started_unix_s for run in rows if run.started_unix_s is not None)
    parts = [text for text in known if text]
    if not parts or not times:
        return None
    first, last = _minute(times[0]), _minute(times[-1])
    day, _, clock = last.partition(" ")
    until = "" if first == last else f" {words['until']} {clock if first.startswith(day) else last}"
    return "; ".join([f"{words['measured']} {first}{until} UTC", *parts])


def _name_all(heading: str, values: Iterable[str | None]) -> str | None:
    found = list(dict.fromkeys(value for value in values if value))
    named = ", ".join([*found[:_MAX_NAMED], *(["..."] if len(found) > _MAX_NAMED else [])])
    return f"{heading} {named}".strip() if found else None


def _commit(own: Origin) -> str | None:
    return own.commit[:_SHORT] + (f"+{own.changes[:_SHORT]}" if own.changes else "") if own.commit else None


def _minute(unix_s: float) -> str:
    return (to_utc(unix_s) or ABSENT).replace("T", " ")[:16]
