"""DLPerf's result file: {model: {case: {average_speed, median_speed, batch_size_per_device, speedup}}}.

Each case is aggregated first and then divided by the aggregate of `1n1g` with the same batch, precision and so on.
DLPerf's own script divides by the run of `1n1g` that it read last.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from trainmark.analyse.analysis import estimate_run
from trainmark.analyse.baseline import software_of
from trainmark.report.exporting import Exported, ExportFormat, devices_per_node, num_nodes, shorten
from trainmark.store.rows import RunRow
from trainmark.units import plain, to_json

_NO_SPEED = "no speed"
_NO_CASE = "unknown number of devices or nodes; import it with --devices N --nodes N"

Kind = tuple[tuple[str, str], ...]
Speeds = dict[tuple[int, int], list[float]]
"""Speeds of the runs of each case, by number of nodes and devices per node."""


def export(rows: Sequence[RunRow]) -> Exported:
    document: dict[str, Any] = {}
    found, left_out = _collect(rows)
    for model, kinds in sorted(found.items()):
        names = _name_kinds(model, kinds)
        for kind, speeds in sorted(kinds.items()):
            document.setdefault(names[kind], {}).update(_describe(kind, speeds))
    text = to_json(document, indent=1) + "\n"
    return Exported(files={"result.json": text}, stream=text, left_out=left_out)


EXPORT = ExportFormat(
    name="dlperf",
    summary="speeds and speed-ups of each <N>n<G>g case, the JSON of DLPerf's extraction scripts",
    export=export,
)


def _collect(rows: Sequence[RunRow]) -> tuple[dict[str, dict[Kind, Speeds]], dict[str, str]]:
    """By model, and runs that are left out: the format has no failures, and needs nodes and devices to name a case."""
    found: dict[str, dict[Kind, Speeds]] = {}
    left_out: dict[str, str] = {}
    for row in rows:
        estimate, nodes, devices = estimate_run(row), num_nodes(row), devices_per_node(row)
        if estimate is None or nodes is None or devices is None:
            left_out[row.id] = _NO_SPEED if estimate is None else _NO_CASE
            continue
        case = (nodes, devices)
        model = plain(row.workload or row.model or "unknown")
        found.setdefault(model, {}).setdefault(_kind(row), {}).setdefault(case, []).append(estimate.value)
    return found, left_out


def _kind(row: RunRow) -> Kind:
    """What must be equal for a speed-up, each part as it would appear in a name."""
    batch = "" if row.batch_size_per_device is None else f"b{row.batch_size_per_device}"
    parts = {"batch": batch, "precision": row.precision, "framework": row.framework, "recipe": row.recipe,
             "size": row.size, "device": row.device, "data": row.data, "epochs": row.epochs,
             "machine": row.machine, **_software(row)}  # fmt: skip
    return tuple((name, plain(value or "")) for name, value in parts.items())


def _software(row: RunRow) -> dict[str, str]:
    version, program, commit, changes = software_of(row)
    return {"version": version, "trainmark": program, "commit": commit[:8], "changes": changes[:8]}


def _name_kinds(model: str, kinds: dict[Kind, Speeds]) -> dict[Kind, str]:
    """The model alone if all cases differ; otherwise with what differs, as in `resnet50_b128_amp`."""
    cases = [case for speeds in kinds.values() for case in speeds]
    if len(set(cases)) == len(cases):
        return dict.fromkeys(kinds, model)
    differing = [name for name, _ in next(iter(kinds)) if len({dict(kind)[name] for kind in kinds}) > 1]
    return {kind: "_".join([model, *(dict(kind)[name] or "unknown" for name in differing)]) for kind in kinds}


def _describe(kind: Kind, speeds: Speeds) -> dict[str, Any]:
    base = speeds.get((1, 1))
    batch = dict(kind)["batch"].removeprefix("b")
    return {
        f"{nodes}n{devices}g": {
            "average_speed": shorten(statistics.fmean(own)),
            "median_speed": shorten(statistics.median(own)),
            "batch_size_per_device": int(batch) if batch else None,
            "speedup": shorten(statistics.fmean(own) / statistics.fmean(base)) if base else None,
        }
        for (nodes, devices), own in sorted(speeds.items())
    }
