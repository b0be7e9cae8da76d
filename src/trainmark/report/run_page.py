"""One run on a page of a terminal: what it was, on which machine, how fast and how evenly, where its files are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from trainmark.analyse.analysis import analysis_of
from trainmark.analyse.identity import identity_of
from trainmark.analyse.table import Line, build_lines
from trainmark.analyse.training import time_to_train
from trainmark.analyse.utilisation import achieved_flops_per_s, find_missing_peak, latest_peak
from trainmark.report.columns import describe_line, heading
from trainmark.report.layout import fold, room_for_table
from trainmark.report.provenance import to_utc
from trainmark.report.remarks import said_codes, say_remarks
from trainmark.report.settings import say_optimisations
from trainmark.report.sparkline import draw
from trainmark.report.words import say_coded_warning, say_outcome
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_bytes, format_count, format_number, format_seconds, plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SETUP = ("workload", "framework", "recipe", "precision", "devices", "batch_size_per_device", "data")
_VERSIONS = ("trainmark", "framework", "python", "cuda", "cudnn", "nccl", "driver")
_PERCENTILES = (1, 25, 50, 75, 99)
_MAX_EVALS = 6
_MAX_WIDTH = 100
"""Of a sparkline: a wider one is not easier to read."""
_LABEL = 13


@dataclass(frozen=True, kw_only=True)
class _Section:
    title: str
    facts: Sequence[tuple[str, str]]
    """Name and text; the text may have several lines."""


def print_run(row: RunRow, folder: Path, console: Console) -> None:
    console.print(Text(plain(row.id), style="bold"))
    for section in (*_describe(row, console), _Section(title="files", facts=[("", text) for text in _files(folder)])):
        if not section.facts:
            continue
        console.print(Text(f"\n{section.title}", style="bold"))
        for name, text in section.facts:
            label = f"  {name:<{_LABEL}} " if name else "  "
            console.print(Text(fold(label + text, console, indent=len(label))))


def _describe(row: RunRow, console: Console) -> Iterator[_Section]:
    yield _Section(title="what was run", facts=list(_identity(row)))
    yield _Section(title="where", facts=list(_environment(row)))
    yield _Section(title="result", facts=list(_result(row)))
    yield _Section(title="steps", facts=list(_steps(row, console)))
    yield _Section(title="training", facts=list(_training(row, console)))
    yield _Section(title="warnings", facts=[("", text) for text in _warnings(row)])


def _identity(row: RunRow) -> Iterator[tuple[str, str]]:
    (line,) = build_lines([row])
    cells = describe_line(line, "en")
    for name in _SETUP:
        if cells[name] != ABSENT:
            yield heading(name, "en"), cells[name]
    if optimisations := say_optimisations(row):
        yield "optimisations", plain(optimisations)
    own = identity_of(row)
    hashes = {"work": own.work, "code": own.code, "machine": own.machine}
    yield "identity", ", ".join(f"{axis} {value or 'unknown'}" for axis, value in hashes.items())
    code = own.facts["code"]
    if "commit" in code:
        changes = " with uncommitted changes" if "changes" in code else ""
        yield "commit", plain(f"{code['commit']}{changes}")
    if row.asked:
        yield "command", plain(row.asked)
    if row.dialect is not None:
        yield "log", plain(f"{row.source} ({row.dialect})")


def _environment(row: RunRow) -> Iterator[tuple[str, str]]:
    facts = identity_of(row).facts
    code = {name: value for name, value in facts["code"].items() if name not in ("commit", "changes", "branch")}
    for name, value in {**facts["machine"], **{name: code.pop(name) for name in _VERSIONS if name in code}}.items():
        yield plain(name), plain(value)
    if code:
        yield "also", plain(", ".join(f"{name} {value}" for name, value in code.items()))


def _result(row: RunRow) -> Iterator[tuple[str, str]]:
    (line,) = build_lines([row])
    cells = describe_line(line, "en")
    reason = f": {row.why.english}" if row.reason else ""
    yield "outcome", plain(f"{say_outcome(row, 'en')}{reason}")
    if line.estimate is not None:
        has_interval = line.known is not None and line.known.ci95 is not None
        interval = f", 95% interval {cells['interval']} ({cells['relative']})" if has_interval else ", no interval"
        method = f"; {line.estimate.method}" if has_interval else ""
        yield "throughput", f"{cells['throughput']}{interval}"
        yield (
            "measured",
            plain(
                f"{format_count(line.estimate.num_steps, 'steady steps')} after "
                f"{format_count(line.estimate.num_warmup_steps, 'steps')} of warm-up{method}"
            ),
        )
    yield from _utilisation(line, cells["mfu"])
    for text in say_remarks(line, "en"):
        yield "", plain(text)
    yield "started", (to_utc(row.started_unix_s) or ABSENT).replace("T", " ").replace("Z", " UTC")
    yield "took", f"{format_seconds(row.wall_s)}, {format_seconds(row.first_step_s)} until the first step was done"
    yield "peak memory", format_bytes(row.peak_memory_bytes)
    if row.witness is not None:
        yield "rests on", plain(row.witness)


def _utilisation(line: Line, share: str) -> Iterator[tuple[str, str]]:
    peak, achieved = latest_peak(line), achieved_flops_per_s(line.first, line.known)
    if peak is not None and achieved is not None:
        again = "; measure the peak again: trainmark doctor --peaks" if achieved > peak else ""
        reached = f"{achieved / 1e12:.3g} TFLOP/s of {peak / 1e12:.3g} that a matrix product reached"
        yield "MFU", f"{share}: {reached}{again}"
    elif (missing := find_missing_peak([line])) is not None:
        yield "MFU", plain(f"none: {missing.english}")


def _steps(row: RunRow, console: Console) -> Iterator[tuple[str, str]]:
    if not len(row.seconds):
        return
    import numpy as np

    estimate = analysis_of(row).estimate
    seconds = row.seconds[estimate.num_warmup_steps :] if estimate is not None else row.seconds
    values = np.percentile(seconds, _PERCENTILES)
    names = (f"{number}%" if number != 50 else "median" for number in _PERCENTILES)
    shown = ", ".join(f"{name} {format_seconds(float(value))}" for name, value in zip(names, values, strict=True))
    yield "time", f"{shown}; longest {format_seconds(float(row.seconds.max()))}"
    yield "", _draw(seconds, console)
    rates = analysis_of(row)
    if rates.median is not None:
        yield (
            "other means",
            (
                f"median of rates {format_number(rates.median)}, mean of rates {format_number(rates.mean_of_rates)}, "
                f"last {format_number(rates.last)}"
            ),
        )


def _training(row: RunRow, console: Console) -> Iterator[tuple[str, str]]:
    if len(row.losses):
        yield "loss", f"first {row.losses[0]:.4g}, last {row.losses[-1]:.4g}"
        yield "", _draw(row.losses, console)
    for evaluation in row.evals[-_MAX_EVALS:]:
        epoch = "" if evaluation.get("epoch") is None else f" after epoch {evaluation['epoch']:g}"
        yield "evaluation", plain(f"{evaluation['metric']} {evaluation['value']:.4g}{epoch}")
    reached_s = time_to_train(row)
    if reached_s is not None:
        yield "time to train", format_seconds(reached_s)


def _warnings(row: RunRow) -> list[str]:
    found: dict[str, int] = {}
    (line,) = build_lines([row])
    for warning in (*row.warnings, *analysis_of(row).warnings):
        if warning["code"] in said_codes(line):
            continue
        text = say_coded_warning(warning, "en", num=1)
        found[text] = found.get(text, 0) + 1
    return [plain(f"{text} ({num} times)" if num > 1 else text) for text, num in found.items()]


def _files(folder: Path) -> Iterator[str]:
    """Names and sizes; what is no plain file is named as such and not opened."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    yield plain(str(folder))
    for path in entries:
        state = path.lstat()
        size = format_bytes(state.st_size) if path.is_file() and not path.is_symlink() else "not a plain file"
        yield plain(f"{path.name}  {size}")


def _draw(values: NDArray[np.float64], console: Console) -> str:
    width = min(_MAX_WIDTH, room_for_table(console) - _LABEL - 3)
    return draw(values, width=max(10, width))
