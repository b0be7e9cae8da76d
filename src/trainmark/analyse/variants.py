"""What to call a line whose cell was measured in several environments: by what differs between those, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    """In the order in which they are told."""
    facts = row.environment
    cores = facts.get("num_cores")
    return (
        str(facts.get("framework") or row.framework or ""),
        f"trainmark {facts['trainmark']}" if facts.get("trainmark") else "",
        _commit(facts.get("git")),
        str(facts.get("hostname") or ""),
        f"{cores} cores" if cores else "",
    )


def _commit(git: object) -> str:
    """Its beginning, and that of the digest of what was changed since: two edits of one commit are two things."""
    if not isinstance(git, dict) or not git.get("commit"):
        return ""
    changes = git.get("diff_sha256")
    return str(git["commit"])[:_SHORT] + (f"+{str(changes)[:_SHORT]}" if changes else "")


def _join(values: tuple[str, ...], told: set[int]) -> str:
    return " ".join(value for place, value in enumerate(values) if place in told and value)
