"""Raw tables (from TOML or the command line) to a Suite. All faults of a suite are reported at once."""

from __future__ import annotations

from typing import Any

from trainmark.errors import Fault, SpecError
from trainmark.frameworks import frameworks
from trainmark.spec.catalog import Catalog, Offer
from trainmark.spec.cell import DEVICES, PRECISIONS, DataSource
from trainmark.spec.checking import Checker, Table, describe_faults, is_word, suggest
from trainmark.spec.cluster import CLUSTER_KEYS, check_suite_cluster, parse_cluster
from trainmark.spec.suite import Measure, Suite, Sweep

SUITE_KEYS = ("schema", "name", "summary", "measure", "cluster", "cells")
MEASURE_KEYS = tuple(Measure.__dataclass_fields__)
CELL_KEYS = tuple(Sweep.__dataclass_fields__)
ALLOWED_VARIABLES = "allow_env"
"""An option that is no key of a suite: names of variables that this suite may set."""
_NEVER_ABOVE = (("min_seconds", "max_seconds"), ("min_seconds", "timeout_s"), ("max_seconds", "timeout_s"))


def parse_suite(raw: Table, *, origin: str, catalog: Catalog, overrides: Table | None = None) -> Suite:
    """`overrides` are the options beside a suite: they replace the same key in every cell of it.

    Only the command line can allow variables that a suite may not set by itself.
    """
    overrides = dict(overrides or {})
    allowed = overrides.pop(ALLOWED_VARIABLES, ())
    faults: list[Fault] = []
    check = Checker(raw, "", faults)
    check.refuse_unknown(SUITE_KEYS)
    if raw.get("schema", 1) != 1:
        check.fault("schema", f"must be 1, got {raw['schema']!r}", "this version of trainmark reads schema 1")
    measure_keys = {key: value for key, value in overrides.items() if key in MEASURE_KEYS}
    cluster_keys = {key: value for key, value in overrides.items() if key in CLUSTER_KEYS}
    cell_keys = {key: value for key, value in overrides.items() if key not in {*MEASURE_KEYS, *CLUSTER_KEYS}}
    measure = _parse_measure(check.table("measure"), measure_keys, faults)
    cluster_table = check.table("cluster")
    check_suite_cluster(cluster_table, faults, allowed=allowed)
    cluster = parse_cluster({**cluster_table, **cluster_keys}, faults)
    cells = raw.get("cells")
    if not isinstance(cells, list) or not cells or not all(isinstance(cell, dict) for cell in cells):
        check.fault("cells", "no cells", "add at least one [[cells]] table with a workload")
        cells = []
    sweeps = [
        _parse_sweep(cell, f"cells[{position}]", catalog, cell_keys, faults) for position, cell in enumerate(cells)
    ]
    if faults:
        faults = list(dict.fromkeys(faults))  # an option is checked once for each cell
        raise SpecError(describe_faults(origin, faults), faults)
    return Suite(
        name=str(raw.get("name", origin)),
        summary=str(raw.get("summary", "")),
        measure=measure,
        cluster=cluster,
        sweeps=tuple(sweep for sweep in sweeps if sweep),
    )


def _parse_sweep(cell: Table, where: str, catalog: Catalog, options: Table, faults: list[Fault]) -> Sweep | None:
    raw = {**cell, **options}
    check = Checker(raw, where, faults, options=options)
    check.refuse_unknown(CELL_KEYS)
    offer = _find_offer(raw.get("workload"), check, catalog)
    axes: dict[str, Any] = {
        "framework": check.choices("framework", offer.frameworks if offer else None, elsewhere=frameworks().names()),
        "recipe": check.choices("recipe", offer.recipes if offer else None),
        "precision": check.choices("precision", PRECISIONS),
        "size": check.choices("size", offer.sizes if offer else None),
        "nodes": check.integers("nodes"),
        "devices": check.integers("devices"),
        "batch_size": check.integers("batch_size"),
        "data": _parse_sources(check),
        "device": check.choice("device", DEVICES),
        "epochs": check.integer("epochs"),
        "lr": check.number("lr"),
        "until_target": _parse_target(raw, check),
        "seed": check.integer("seed", least=0),
        "repeat": check.integer("repeat"),
        "weights": check.word("weights"),
    }
    check.refuse_many_runs(axes.values(), axes["repeat"])
    key = "until_target" if axes["until_target"] else "epochs"
    if axes[key] and any(source.kind != "real" for source in axes["data"] or (DataSource(),)):
        check.fault(key, "needs a data set", f"pass --data DIR, or leave {key} out to measure speed")
    if offer is None:
        return None
    return Sweep(workload=str(raw["workload"]), **{key: value for key, value in axes.items() if value is not None})


def _find_offer(name: Any, check: Checker, catalog: Catalog) -> Offer | None:
    offer = catalog.get(name) if isinstance(name, str) else None
    if offer is not None and offer.problem is None:
        return offer
    if offer is not None and offer.problem is not None:
        check.fault("workload", offer.problem, "see `trainmark list workloads`")
        return None
    problem = "missing" if name is None else f"unknown workload {name!r}"
    check.fault("workload", problem, suggest(name, tuple(catalog)))
    return None


def _parse_sources(check: Checker) -> tuple[DataSource, ...] | None:
    def is_source(value: Any) -> bool:
        is_valid = is_word(value) and value != "cached:"
        if not is_valid:
            check.fault("data", f"must be synthetic, cached:DIR or DIR, got {value!r}")
        return is_valid

    texts = check.many("data", is_source)
    return None if texts is None else tuple(DataSource.parse(text) for text in texts)


def _parse_target(raw: Table, check: Checker) -> bool | float | None:
    value = raw.get("until_target")
    if value is None or isinstance(value, bool) or (isinstance(value, (int, float)) and 0 < value <= 1):
        return value
    hint = "metrics are fractions: 0.759 means 75.9%; true means the recipe's own target"
    check.fault("until_target", f"must be true or a number > 0 and <= 1, got {value!r}", hint)
    return None


def _parse_measure(table: Table, options: Table, faults: list[Fault]) -> Measure:
    check = Checker({**table, **options}, "measure", faults, options=options)
    check.refuse_unknown(MEASURE_KEYS)
    num_faults = len(faults)
    values: dict[str, Any] = {key: check.number(key) for key in ("min_seconds", "max_seconds", "timeout_s")}
    values |= parse_hang_limits(check)
    values["target_ci"] = check.number("target_ci", below=1, hint="it is a fraction: 0.01 means ±1%")
    values["max_steps"] = check.integer("max_steps")
    measure = Measure(**{key: value for key, value in values.items() if value is not None})
    if len(faults) == num_faults:
        _refuse_contradictions(measure, table, options, check)
    return measure


def parse_hang_limits(check: Checker) -> dict[str, float | None]:
    hint = "a run without a step for this many times the usual step time counts as hung"
    return {
        "hang_least_s": check.number("hang_least_s"),
        "hang_factor": check.number("hang_factor", least=2, hint=hint),
    }


def _refuse_contradictions(measure: Measure, table: Table, options: Table, check: Checker) -> None:
    """The upper limit wins if it was set closer to the run: an option over a suite, a suite over the default."""

    def closeness(key: str) -> int:
        return 2 if key in options else 1 if key in table else 0

    limits = {"min_seconds": measure.min_seconds, "max_seconds": measure.max_seconds, "timeout_s": measure.timeout_s}
    for lower, upper in _NEVER_ABOVE:
        least, most = limits[lower], limits[upper]
        is_strict = upper == "timeout_s"  # setting up takes time too
        if least is None or most is None or closeness(lower) < closeness(upper):
            continue
        if least >= most if is_strict else least > most:
            problem = f"must be {'<' if is_strict else '<='} {upper} ({most!r}), got {least!r}"
            check.fault(lower, problem, f"lower {lower} or raise {upper}")
