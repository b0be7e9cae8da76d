"""Export formats: every file of `report/export` with an `EXPORT`, and those of other packages."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from trainmark import plugins
from trainmark.report import export

if TYPE_CHECKING:
    from trainmark.analyse.scaling import Asked
    from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Exported:
    files: Mapping[str, str]
    """Content by path, relative to the output folder."""
    stream: str | None
    """All results in one text, for a pipe or one file; None if the format needs a folder."""
    logs: Mapping[str, str] = field(default_factory=dict)
    """Logs that belong next to `files`: path to the id of the run whose output it is."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Runs that the format cannot hold: id to the reason."""


@dataclass(frozen=True, kw_only=True)
class ExportFormat:
    name: str
    """As in `trainmark export --format NAME`."""
    summary: str
    export: Callable[[Sequence[RunRow]], Exported]
    export_with_sweeps: Callable[[Sequence[RunRow], Sequence[Asked]], Exported] | None = None
    """For a format that also tells what sweeps asked for and did not get; used instead of `export`."""


@cache
def exports() -> plugins.Registry[ExportFormat]:
    """Built-in ones by file name, nothing imported: `paddle_benchmark.py` is `paddle-benchmark`, `csv_.py` is `csv`."""
    modules = sorted(module.name for module in pkgutil.iter_modules(export.__path__))
    own = {module.rstrip("_").replace("_", "-"): partial(_load, module) for module in modules}
    return plugins.Registry(plugins.EXPORTS, kind="export format", built_in=own, check=plugins.expect(ExportFormat))


def _load(module: str) -> ExportFormat:
    found: ExportFormat = importlib.import_module(f"{export.__name__}.{module}").EXPORT
    return found


REPLACED = "an attempt that was repeated"
"""Why a run is left out of a format that would take it for a failure."""


def shorten(value: float) -> float:
    """Round to six significant digits, more than any run reproduces; the store has the rest."""
    return float(f"{value:.6g}")


def devices_per_node(row: RunRow) -> int | None:
    """None if the number of nodes is unknown or does not fit: 2 devices cannot be on 4 nodes."""
    nodes = num_nodes(row)
    return row.devices // nodes if row.devices and nodes and row.devices % nodes == 0 else None


def num_nodes(row: RunRow) -> int | None:
    """One device is on one node, even if the run does not say so."""
    return 1 if row.devices == 1 else row.nodes


def main_metric(row: RunRow) -> str | None:
    """For formats with a single accuracy: the metric of the target, else the first that was evaluated."""
    metrics = [evaluation.get("metric") for evaluation in row.evals]
    target = row.log.get("target")
    stated = target.get("metric") if isinstance(target, dict) else None
    return stated if stated in metrics else next(iter(metrics), None)


def timed_evaluations(row: RunRow) -> Iterator[tuple[float, dict[str, Any]]]:
    """Seconds since the start, and the evaluation; without evaluations that have no time."""
    for evaluation in row.evals:
        time_s = evaluation.get("time_s")
        if time_s is not None:
            yield time_s, evaluation
