"""The `--json` contract: one document of all results, put together from the texts of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainmark.units import to_json


def render_document(results: Sequence[str], **more: Any) -> str:
    """As `to_json` would write {"schema": 1, "results": [...], **more}, each result being JSON already."""
    listed = ",\n  ".join(result.replace("\n", "\n  ") for result in results)
    text = f"[\n  {listed}\n ]" if results else "[]"
    rest = to_json(more, indent=1).removeprefix("{").removesuffix("\n}") if more else ""
    return f'{{\n "schema": 1,\n "results": {text}{"," if more else ""}{rest}\n}}\n'
