"""Workloads by name: every folder here with a card.py, and those of other packages.

An entry point `trainmark.workloads` names a package with the same files: `card.py` with a `CARD`, and a module for
each framework, such as `torch.py`.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache, partial
from types import ModuleType

from trainmark import plugins
from trainmark import workloads as built_in
from trainmark.workloads.card import Card


@dataclass(frozen=True, kw_only=True)
class Workload:
    card: Card
    package: str


@cache
def workloads() -> plugins.Registry[Workload]:
    names = sorted(module.name for module in pkgutil.iter_modules(built_in.__path__) if module.ispkg)
    own = {name: partial(_load, name, f"{built_in.__name__}.{name}") for name in names}
    return plugins.Registry(plugins.WORKLOADS, kind="workload", built_in=own, check=_check)


def load_cards() -> dict[str, Card]:
    """Those of all workloads that can be used."""
    return {found.name: found.value.card for found in workloads().found()}


def load_card(name: str) -> Card:
    return workloads().load(name).card


def load_module(name: str, part: str) -> ModuleType:
    """`part` is `torch`, `paddle`, `jax`, `data`, `metric` or `synthetic`: the same file names in every folder."""
    return importlib.import_module(f"{workloads().load(name).package}.{part}")


def _check(name: str, value: object) -> Workload:
    if not isinstance(value, ModuleType):
        raise TypeError(f"expected a package with a card.py, got {type(value).__name__}")
    return _load(name, value.__name__)


def _load(name: str, package: str) -> Workload:
    card = importlib.import_module(f"{package}.card").CARD
    return Workload(card=plugins.expect(Card)(name, card), package=package)
