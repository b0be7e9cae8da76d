"""What a report document is made of: results, studies, logs and published numbers, for any format and language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainmark.analyse.laws import judge
from trainmark.analyse.references import Reference
from trainmark.analyse.scaling import Study
from trainmark.analyse.table import Line
from trainmark.store.log_files import LogFile
from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Contents:
    lines: Sequence[Line]
    studies: Sequence[Study]
    lang: str
    made_unix_s: float
    version: str
    """Of trainmark."""
    references: Sequence[Reference] = ()
    logs: Mapping[str, LogFile] = field(default_factory=dict)
    """By run id; empty where the document does not list them."""
    links: Mapping[str, str] = field(default_factory=dict)
    """By run id: where the log is, as seen from the document."""

    def __post_init__(self) -> None:
        judge(self.runs)  # marks are found among all runs of the document

    @property
    def runs(self) -> list[RunRow]:
        return [run for line in self.lines for run in line.runs]

    @property
    def has_result(self) -> bool:
        return any(line.estimate for line in self.lines)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Of plain text; each format escapes it in its own way."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    numbers: frozenset[int] = frozenset()
    """Columns that are aligned to the right."""
