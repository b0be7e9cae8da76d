"""Markdown from text that may come from strangers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainmark.units import plain

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~])")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Of cells that are Markdown already."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def escape_markdown(text: object) -> str:
    """Keep Markdown and HTML in a path or a log as plain text."""
    return _SPECIAL.sub(r"\\\1", plain(text).replace("&", "&amp;"))
