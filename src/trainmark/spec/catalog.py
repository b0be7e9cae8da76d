"""What may be asked for: the part of each workload's card that a spec is checked against.

The command line fills this from the cards, so that checking a spec needs no workload, hence no framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Offer:
    frameworks: tuple[str, ...]
    recipes: tuple[str, ...]
    sizes: tuple[str, ...]
    batch_sizes: Mapping[str, int]
    """The batch per device that is used where none is given, by size."""
    targets: tuple[tuple[str, float], ...] = ()
    """Metric and value, of the recipe."""
    epochs: int | None = None
    """Of the recipe: as long as a training goes that no target ended."""
    problem: str | None = None
    """Why the workload cannot be used: it belongs to a broken plugin."""


Catalog = Mapping[str, Offer]
