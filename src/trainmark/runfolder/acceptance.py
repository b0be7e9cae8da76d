"""accepted.json: the laws that a run breaks and that a person accepted, each with a written reason and a time.

The file is not part of the seal: it says what somebody thinks of the run, and never what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trainmark.runfolder.files import ACCEPTED_FILE, SCHEMA, Json, read_json, write_json
from trainmark.runfolder.values import as_float, as_object, as_text

_MAX_ENTRIES = 64
_MAX_TEXT = 1000


class Acceptance(NamedTuple):
    law: str
    """Its code, such as `superlinear`."""
    because: str
    unix_s: float | None

    @classmethod
    def from_json(cls, value: Any) -> Acceptance | None:
        """None without a law or without a reason: nothing is accepted silently."""
        entry = as_object(value)
        law, because = as_text(entry.get("law")), (as_text(entry.get("because")) or "").strip()
        return cls(law, because[:_MAX_TEXT], as_float(entry.get("unix_s"))) if law and because else None


def read_accepted(folder: Path) -> tuple[Json, ...]:
    """The last one of each law, as the index keeps them."""
    listed = (read_json(folder / ACCEPTED_FILE) or {}).get("accepted")
    entries = listed[-_MAX_ENTRIES:] if isinstance(listed, list) else []
    found = (accepted for entry in entries if (accepted := Acceptance.from_json(entry)) is not None)
    return tuple(accepted._asdict() for accepted in {accepted.law: accepted for accepted in found}.values())


def write_accepted(folder: Path, accepted: Sequence[Acceptance]) -> None:
    write_json(folder / ACCEPTED_FILE, {"schema": SCHEMA, "accepted": [entry._asdict() for entry in accepted]})


def accept(folder: Path, new: Acceptance) -> None:
    """Replaces an earlier acceptance of the same law."""
    write_accepted(folder, [*_others(folder, new.law), new])


def withdraw(folder: Path, law: str) -> None:
    write_accepted(folder, _others(folder, law))


def _others(folder: Path, law: str) -> list[Acceptance]:
    return [Acceptance(**entry) for entry in read_accepted(folder) if entry["law"] != law]
