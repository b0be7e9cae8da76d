"""Workloads are found, not listed: every folder here with a card.py is one."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from trainmark import workloads
from trainmark.workloads.card import Card


def load_cards() -> dict[str, Card]:
    names = sorted(module.name for module in pkgutil.iter_modules(workloads.__path__) if module.ispkg)
    return {name: load_card(name) for name in names}


def load_card(name: str) -> Card:
    card: Card = importlib.import_module(f"trainmark.workloads.{name}.card").CARD
    return card


def load_module(name: str, part: str) -> ModuleType:
    """`part` is `torch`, `paddle`, `data` or `metric`: the same file names in every folder."""
    return importlib.import_module(f"trainmark.workloads.{name}.{part}")
