"""Raw tables (from TOML or flags) to a Suite. Every fault of a suite is found in one pass and reported at once."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trainmark.errors import Fault, SpecError
from trainmark.spec.catalog import Catalog, Offer
from trainmark.spec.cell import DEVICES, PRECISIONS, DataSource
from trainmark.spec.cluster import CLUSTER_KEYS, check_suite_cluster, parse_cluster
from trainmark.spec.suite import Measure, Suite, Sweep
from trainmark.units import format_count

Table = Mapping[str, Any]
SUITE_KEYS = ("schema", "name", "summary", "measure", "cluster", "cells")
MEASURE_KEYS = tuple(Measure.__dataclass_fields__)
CELL_KEYS = tuple(Sweep.__dataclass_fields__)
_NEVER_ABOVE = (("min_seconds", "max_seconds"), ("min_seconds", "timeout_s"), ("max_seconds", "timeout_s"))


def parse_suite(raw: Table, *, origin: str, catalog: Catalog, overrides: Table | None = None) -> Suite:
    """`overrides` are the flags given beside a suite: they replace the same key in every cell of it."""
    overrides = overrides or {}
    faults: list[Fault] = []
    _refuse_unknown(raw, SUITE_KEYS, "suite", faults)
    if raw.get("schema", 1) != 1:
        faults.append(Fault(where="schema", problem=f"{raw['schema']!r} is not known", hint="this version reads 1"))
    measure_keys = {key: value for key, value in overrides.items() if key in MEASURE_KEYS}
    cluster_keys = {key: value for key, value in overrides.items() if key in CLUSTER_KEYS}
    cell_keys = {key: value for key, value in overrides.items() if key not in {*MEASURE_KEYS, *CLUSTER_KEYS}}
    measure = _parse_measure(_table(raw, "measure", faults), measure_keys, faults)
    check_suite_cluster(_table(raw, "cluster", faults), faults)
    cluster = parse_cluster({**_table(raw, "cluster", []), **cluster_keys}, faults)
    cells = raw.get("cells")
    if not isinstance(cells, list) or not cells or not all(isinstance(cell, dict) for cell in cells):
        faults.append(Fault(where="cells", problem="no cells", hint="add at least one [[cells]] table with a workload"))
        cells = []
    sweeps = []
    for position, cell in enumerate(cells):
        where = f"cells[{position}]" if len(cells) > 1 or origin.endswith(".toml") else "cell"
        sweeps.append(_parse_sweep({**cell, **cell_keys}, where, catalog, faults))
    if faults:
        raise SpecError(f"{origin} has {format_count(len(faults), 'faults')}", faults)
    name = str(raw.get("name", origin))
    known = tuple(sweep for sweep in sweeps if sweep)
    return Suite(name=name, summary=str(raw.get("summary", "")), measure=measure, cluster=cluster, sweeps=known)


def _parse_sweep(raw: Table, where: str, catalog: Catalog, faults: list[Fault]) -> Sweep | None:
    _refuse_unknown(raw, CELL_KEYS, where, faults)
    offer = _find_offer(raw.get("workload"), where, catalog, faults)
    check = Checker(raw, where, faults)
    axes: dict[str, Any] = {
        "framework": check.words("framework", offer.frameworks if offer else None),
        "recipe": check.words("recipe", offer.recipes if offer else None),
        "precision": check.words("precision", PRECISIONS),
        "size": check.words("size", offer.sizes if offer else None),
        "nodes": check.counts("nodes"),
        "devices": check.counts("devices"),
        "batch_size": check.counts("batch_size"),
        "data": check.sources("data"),
        "device": check.word("device", DEVICES),
        "epochs": check.count("epochs"),
        "lr": check.positive("lr"),
        "until_target": check.target("until_target"),
        "seed": check.count("seed", least=0),
        "repeat": check.count("repeat"),
    }
    key = "until_target" if axes["until_target"] else "epochs"
    if axes[key] and any(source.kind != "real" for source in axes["data"] or (DataSource(),)):
        hint = f"give --data DIR, or leave {key} out to measure speed"
        faults.append(Fault(where=f"{where}.{key}", problem="needs a data set with epochs", hint=hint))
    if offer is None:
        return None
    return Sweep(workload=str(raw["workload"]), **{key: value for key, value in axes.items() if value is not None})


def _parse_measure(table: Table, flags: Table, faults: list[Fault]) -> Measure:
    raw = {**table, **flags}
    _refuse_unknown(raw, MEASURE_KEYS, "measure", faults)
    num_faults = len(faults)
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in MEASURE_KEYS or (key == "max_steps" and value is None):
            continue
        number = not isinstance(value, bool) and isinstance(value, int if key == "max_steps" else (int, float))
        if not number or not 0 < value < float("inf"):
            kind = "whole number" if key == "max_steps" else "number"
            faults.append(Fault(where=f"measure.{key}", problem=f"{value!r} is no positive {kind}", hint="give one"))
        elif key == "target_ci" and value >= 1:
            hint = "it is a fraction: 0.01 means ±1%"
            faults.append(Fault(where="measure.target_ci", problem=f"{value!r} is 100% or more", hint=hint))
        elif key == "hang_factor" and value < 2:
            hint = "it is how many usual steps without one are a hang: give 2 or more"
            faults.append(Fault(where="measure.hang_factor", problem=f"{value!r} would end healthy runs", hint=hint))
        else:
            values[key] = value
    measure = Measure(**values)
    if len(faults) == num_faults:
        _refuse_contradictions(measure, table, flags, faults)
    return measure


def _refuse_contradictions(measure: Measure, table: Table, flags: Table, faults: list[Fault]) -> None:
    """The upper limit wins where it was said nearer to the run: a flag over a suite, a suite over what is usual."""

    def nearness(key: str) -> int:
        return 2 if key in flags else 1 if key in table else 0

    for lower, upper in _NEVER_ABOVE:
        least, most = getattr(measure, lower), getattr(measure, upper)
        is_strict = upper == "timeout_s"  # setting up takes time too
        if most is not None and (least >= most if is_strict else least > most) and nearness(lower) >= nearness(upper):
            problem = f"{least!r} is {'not below' if is_strict else 'above'} {upper}, which is {most!r}"
            faults.append(Fault(where=f"measure.{lower}", problem=problem, hint=f"lower {lower} or raise {upper}"))


class Checker:
    """Reads one table's values, each a single value or a list, and notes what is wrong with them."""

    def __init__(self, raw: Table, where: str, faults: list[Fault]) -> None:
        self._raw, self._where, self._faults = raw, where, faults

    def words(self, key: str, allowed: Iterable[str] | None) -> tuple[str, ...] | None:
        choices = tuple(allowed) if allowed is not None else None
        return self._many(key, lambda value: self._check_word(key, value, choices))

    def counts(self, key: str) -> tuple[int, ...] | None:
        return self._many(key, lambda value: self._check_count(key, value, 1))

    def sources(self, key: str) -> tuple[DataSource, ...] | None:
        texts = self._many(key, lambda value: self._check_source(key, value))
        return None if texts is None else tuple(DataSource.parse(text) for text in texts)

    def word(self, key: str, allowed: Iterable[str]) -> str | None:
        value = self._raw.get(key)
        return str(value) if value is not None and self._check_word(key, value, tuple(allowed)) else None

    def count(self, key: str, *, least: int = 1) -> int | None:
        value = self._raw.get(key)
        return int(value) if value is not None and self._check_count(key, value, least) else None

    def positive(self, key: str) -> float | None:
        value = self._raw.get(key)
        if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf):
            return value
        self._fault(key, f"{value!r} is no positive number", "give one")
        return None

    def target(self, key: str) -> bool | float | None:
        value = self._raw.get(key)
        if value is None or isinstance(value, bool) or (isinstance(value, (int, float)) and 0 < value <= 1):
            return value
        hint = "metrics are fractions: 0.759 means 75.9%; true means the recipe's own target"
        self._fault(key, f"{value!r} is no target above 0 and up to 1", hint)
        return None

    def _many(self, key: str, is_right: Callable[[Any], bool]) -> tuple[Any, ...] | None:
        value = self._raw.get(key)
        if value is None:
            return None
        values = value if isinstance(value, list) else [value]
        if not values:
            self._fault(key, "is an empty list", "give at least one value or leave the key out")
        right = [item for item in values if is_right(item)]
        return tuple(dict.fromkeys(right)) or None

    def _check_word(self, key: str, value: Any, allowed: tuple[str, ...] | None) -> bool:
        if allowed is None or value in allowed:
            return isinstance(value, str)
        self._fault(key, f"{value!r} is not known", suggest(value, allowed))
        return False

    def _check_count(self, key: str, value: Any, least: int) -> bool:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**31:
            return True
        self._fault(key, f"{value!r} is no whole number from {least} up", f"give {least} or more, below 2**31")
        return False

    def _check_source(self, key: str, value: Any) -> bool:
        if isinstance(value, str) and value and value != "cached:" and "\0" not in value:
            return True
        self._fault(key, f"{value!r} is no data source", "give synthetic, cached:DIR or DIR")
        return False

    def _fault(self, key: str, problem: str, hint: str) -> None:
        self._faults.append(Fault(where=f"{self._where}.{key}", problem=problem, hint=hint))


def _find_offer(name: Any, where: str, catalog: Catalog, faults: list[Fault]) -> Offer | None:
    offer = catalog.get(name) if isinstance(name, str) else None
    if offer is not None and offer.problem is None:
        return offer
    if offer is not None and offer.problem is not None:
        faults.append(Fault(where=f"{where}.workload", problem=offer.problem, hint="see trainmark list workloads"))
        return None
    problem = "is missing" if name is None else f"{name!r} is not known"
    faults.append(Fault(where=f"{where}.workload", problem=problem, hint=suggest(name, tuple(catalog))))
    return None


def _table(raw: Table, key: str, faults: list[Fault]) -> Table:
    value = raw.get(key, {})
    if isinstance(value, dict):
        return value
    faults.append(Fault(where=key, problem="is not a table", hint=f"write [{key}] and its keys below"))
    return {}


def _refuse_unknown(raw: Table, known: tuple[str, ...], where: str, faults: list[Fault]) -> None:
    faults.extend(
        Fault(where=f"{where}.{key}", problem="is not a key", hint=suggest(key, known))
        for key in raw
        if key not in known
    )


def suggest(value: Any, allowed: tuple[str, ...]) -> str:
    """The hint for a word that is none of those allowed."""
    close = difflib.get_close_matches(str(value), allowed, n=1)
    known = ", ".join(allowed)
    return f"did you mean {close[0]}? known: {known}" if close else f"known: {known}"
