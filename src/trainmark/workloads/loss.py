"""What a step minimises, in any framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def total_loss(terms: Mapping[str, T]) -> T:
    """The sum of the named terms, which `examine` of each workload gives."""
    first, *others = terms.values()
    total: Any = first
    for term in others:
        total = total + term
    found: T = total
    return found
