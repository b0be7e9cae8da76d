"""The JSON Schema of each verb's `--json`, made from the types of what it prints; see `scripts/make-reference`."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, TypedDict, get_type_hints

from trainmark.analyse.communication import Network
from trainmark.measured_peaks import Peak
from trainmark.plan.machine import Machine
from trainmark.report.columns import COLUMNS
from trainmark.report.json_schema import Schema, schema_of
from trainmark.report.json_types import (
    COLUMN_TYPES,
    Commands,
    Comparison,
    Gate,
    GateReplay,
    GateUpdate,
    Listing,
    ParityDocument,
    Plan,
    PooledLine,
    ScalingStudy,
)
from trainmark.runfolder.parity import Contestant, StageRecord
from trainmark.store.rows import RunRow


class CompileCache(TypedDict):
    path: str
    bytes: int


class Problem(TypedDict):
    problem: str
    hint: str


class Doctor(TypedDict):
    schema: int
    machine: Machine
    compile_cache: CompileCache
    peaks: list[Peak]
    problems: list[Problem]


class Peaks(TypedDict):
    schema: int
    peaks: list[Peak]


def result_type() -> Any:
    """One run: fields of the row as they are, the types of the other columns, and what comparing runs adds."""
    hints = get_type_hints(RunRow)
    known = {
        column.name: COLUMN_TYPES[column.name] if column.name in COLUMN_TYPES else hints.get(column.name, Any)
        for column in COLUMNS
        if column.value is not None and (column.name in COLUMN_TYPES or isinstance(column.value, attrgetter))
    }
    beside = {name: COLUMN_TYPES[name] for name in ("warnings", "marks", "admitted", "pooled")}
    return TypedDict("Result", {**known, **beside})  # type: ignore[operator]


def results_type(*, has_studies: bool) -> Any:
    parts: dict[str, Any] = {"schema": int, "results": list[result_type()], "pooled": list[PooledLine]}  # type: ignore[misc]
    if has_studies:
        parts["scaling"] = list[ScalingStudy]
    return TypedDict("Results", parts)  # type: ignore[operator]


def make_schemas() -> dict[str, Schema]:
    """By file name, without its ending: the verb, and where a verb prints several documents, which one."""
    kinds = {
        "ablate": _ablation_type(),
        "accept": results_type(has_studies=False),
        "check": Gate,
        "check-replay": GateReplay,
        "check-update": GateUpdate,
        "compare": Comparison,
        "doctor": Doctor,
        "doctor-network": _network_type(),
        "doctor-peaks": Peaks,
        "import": results_type(has_studies=False),
        "list": Listing,
        "parity": _parity_type(),
        "plan": Plan,
        "report": results_type(has_studies=True),
        "run": results_type(has_studies=True),
        "run-dry": Commands,
        "show": results_type(has_studies=True),
        **_data_types(),
    }
    return {name: schema_of(kind, title=f"trainmark {name} --json") for name, kind in sorted(kinds.items())}


def _data_types() -> dict[str, Any]:
    from trainmark.datasets.fetch.fetch import FetchReport
    from trainmark.datasets.report import CheckReport, MakeReport

    return {"data-check": CheckReport, "data-fetch": FetchReport, "data-make": MakeReport}


def _ablation_type() -> Any:
    from trainmark.controller.ablation import Ablation

    return TypedDict("AblationDocument", {"schema": int, "ablation": Ablation})  # type: ignore[operator]


def _network_type() -> Any:
    described = {**get_type_hints(Network), "latency_s": float, "verdict": str}
    measured = TypedDict("MeasuredNetwork", described)  # type: ignore[misc]
    return TypedDict("NetworkDocument", {"schema": int, "network": measured})  # type: ignore[operator]


def _parity_type() -> Any:
    """An entry for each pair and stage."""
    side = TypedDict("Side", {**get_type_hints(Contestant), "name": str})  # type: ignore[misc]
    entry = TypedDict("ParityEntry", {"one": side, "other": side, **get_type_hints(StageRecord)})  # type: ignore[misc]
    return TypedDict("Parity", {**get_type_hints(ParityDocument), "entries": list[entry]})  # type: ignore[operator]
