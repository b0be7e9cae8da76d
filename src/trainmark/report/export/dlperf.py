"""DLPerf's result file: {model: {case: {average_speed, median_speed, batch_size_per_device, speedup}}}.

Each case is aggregated first and then divided by the aggregate of `1n1g` with the same batch, precision and so on.
DLPerf's own script divides by the run of `1n1g` that it read last.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from trainmark.analyse.origin import origin_of
from trainmark.report.exporting import Exported, ExportFormat, devices_per_node, num_nodes, shorten
from trainmark.report.limits import TOO_NOISY, describe_limits, is_too_noisy, known_speed
from trainmark.store.rows import RunRow
from trainmark.units import plain, to_json

_NO_SPEED = "no speed"
_NO_CASE = "unknown number of devices or nodes; import it with --devices N --nodes N"

Kind = tuple[tuple[str, str], ...]
Cases = dict[tuple[int, int], list[RunRow]]
"""The runs of each case, all with a speed, by number of nodes and devices per node."""


def export(rows: Sequence[RunRow]) -> Exported:
    document: dict[str, Any] = {}
    found, left_out = _collect(rows)
    for model, kinds in sorted(found.items()):
        names = _name_kinds(model, kinds)
        for kind, cases in sorted(kinds.items(), key=lambda item: item[0]):
            document.setdefault(names[kind], {}).update(_describe(kind, cases))
    text = to_json(document, indent=1) + "\n"
    return Exported(files={"result.json": text}, stream=text, left_out=left_out)


EXPORT = ExportFormat(
    name="dlperf",
    summary="speeds and speed-ups of each <N>n<G>g case, the JSON of DLPerf's extraction scripts",
    export=export,
)


def _collect(rows: Sequence[RunRow]) -> tuple[dict[str, dict[Kind, Cases]], dict[str, str]]:
    """By model, and runs that are left out: the format has no failures, and needs nodes and devices to name a case."""
    found: dict[str, dict[Kind, Cases]] = {}
    left_out: dict[str, str] = {}
    for row in rows:
        speed, nodes, devices = known_speed(row), num_nodes(row), devices_per_node(row)
        if speed is None or nodes is None or devices is None:
            why = TOO_NOISY if is_too_noisy(row) else _NO_SPEED
            left_out[row.id] = why if speed is None else _NO_CASE
            continue
        case = (nodes, devices)
        model = plain(row.workload or row.model or "unknown")
        found.setdefault(model, {}).setdefault(_kind(row), {}).setdefault(case, []).append(row)
    return found, left_out


def _kind(row: RunRow) -> Kind:
    """What must be equal for a speed-up, each part as it would appear in a name."""
    batch = "" if row.batch_size_per_device is None else f"b{row.batch_size_per_device}"
    parts = {"batch": batch, "precision": row.precision, "framework": row.framework, "recipe": row.recipe,
             "size": row.size, "device": row.device, "data": row.data, "epochs": row.epochs,
             "machine": row.machine, **_software(row)}  # fmt: skip
    return tuple((name, plain(value or "")) for name, value in parts.items())


def _software(row: RunRow) -> dict[str, str]:
    version, program, commit, changes = origin_of(row).software
    return {"version": version, "trainmark": program, "commit": commit[:8], "changes": changes[:8]}


def _name_kinds(model: str, kinds: dict[Kind, Cases]) -> dict[Kind, str]:
    """The model alone if all cases differ; otherwise with what differs, as in `resnet50_b128_amp`."""
    cases = [case for of_kind in kinds.values() for case in of_kind]
    if len(set(cases)) == len(cases):
        return dict.fromkeys(kinds, model)
    differing = [name for name, _ in next(iter(kinds)) if len({dict(kind)[name] for kind in kinds}) > 1]
    return {kind: "_".join([model, *(dict(kind)[name] or "unknown" for name in differing)]) for kind in kinds}


def _describe(kind: Kind, cases: Cases) -> dict[str, Any]:
    batch = dict(kind)["batch"].removeprefix("b")
    speeds = {case: [speed for run in runs if (speed := known_speed(run)) is not None] for case, runs in cases.items()}
    base = speeds.get((1, 1))
    return {
        f"{nodes}n{devices}g": {
            "average_speed": shorten(statistics.fmean(speeds[nodes, devices])),
            "median_speed": shorten(statistics.median(speeds[nodes, devices])),
            "batch_size_per_device": int(batch) if batch else None,
            "speedup": shorten(statistics.fmean(speeds[nodes, devices]) / statistics.fmean(base)) if base else None,
            **_describe_marks([*runs, *(cases.get((1, 1), []) if (nodes, devices) != (1, 1) else [])]),
        }
        for (nodes, devices), runs in sorted(cases.items(), key=lambda item: item[0])
    }


def _describe_marks(runs: Sequence[RunRow]) -> dict[str, Any]:
    """Of the runs that a speed or a speed-up rests on; nothing for most."""
    found = {run.id: limits["marks"] for run in runs if "marks" in (limits := describe_limits(run))}
    return {"marks": found} if found else {}
