"""What to call a line whose cell was measured in several environments: by what differs between those, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainmark.analyse.baseline import software_of
from trainmark.store.rows import RunRow

_SHORT = 8


def name_variants(cells: Iterable[Sequence[RunRow]]) -> dict[str, str]:
    """By the id of each row. `cells` holds, for each cell, one row of every environment.

    What differs within any of them names all of them, so that the names of one table speak of the same things.
    """
    several = [rows for rows in cells if len(rows) > 1]
    facts = {row.id: _facts(row) for rows in several for row in rows}
    told = {
        place
        for rows in several
        for place, values in enumerate(zip(*(facts[row.id] for row in rows), strict=True))
        if len(set(values)) > 1
    }
    return {row_id: _join(values, told) for row_id, values in facts.items()}


def name_apart(one: RunRow, other: RunRow) -> tuple[str, str]:
    """Empty where nothing that has a name tells them apart."""
    names = name_variants([[one, other]])
    return names[one.id], names[other.id]


def _facts(row: RunRow) -> tuple[str, ...]:
    """In the order in which they are told; two edits of one commit are two things."""
    framework, program, commit, changes = software_of(row)
    host, cores = (row.environment.get(name) for name in ("hostname", "num_cores"))
    return (
        framework or row.framework or "",
        program and f"trainmark {program}",
        commit[:_SHORT] + (f"+{changes[:_SHORT]}" if commit and changes else ""),
        str(host or ""),
        f"{cores} cores" if cores else "",
    )


def _join(values: tuple[str, ...], told: set[int]) -> str:
    return " ".join(value for place, value in enumerate(values) if place in told and value)
