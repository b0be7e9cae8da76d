"""What can be measured: the part of each workload's card that a spec is checked against.

The controller fills it from the cards, so that checking a spec needs no workload and no framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Offer:
    frameworks: tuple[str, ...]
    recipes: tuple[str, ...]
    sizes: tuple[str, ...]
    batch_sizes: Mapping[str, int]
    """Default batch per device, by size."""
    targets: tuple[tuple[str, float], ...] = ()
    """Metrics and values of the recipe."""
    epochs: int | None = None
    """Of the recipe: the length of a training that does not reach its target earlier."""
    recipes_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The recipes of a framework that does not have all of them."""
    problem: str | None = None
    """Why the workload cannot be used: it belongs to a broken plugin."""


Catalog = Mapping[str, Offer]
