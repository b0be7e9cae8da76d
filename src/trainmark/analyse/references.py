"""Published numbers: `references/*.toml`, and which of them may be set beside a result.

A number fits only a result of the same workload, size, unit, precision (fp32 is not TF32), kind of data (synthetic is
not real) and number of devices: speeds are over all devices, never per device. What else differs is said beside it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trainmark.analyse.estimate import Ratio
from trainmark.analyse.table import Line
from trainmark.messages.message import Message
from trainmark.messages.references import (
    other_batch,
    other_framework,
    other_gpu,
    other_layout,
    reference_note,
    reference_on_cpu,
    reference_other_data,
    reference_other_devices,
    reference_other_precision,
    reference_other_size,
    reference_unknown_facts,
    reference_unknown_workload,
)
from trainmark.store.rows import RunRow

_PACKAGE = Path(__file__).resolve().parent.parent
_MOST = 3
"""Numbers beside one result."""
_LAYOUTS = {"channels_last": "NHWC", "contiguous": "NCHW", "channels_first": "NCHW", "NHWC": "NHWC", "NCHW": "NCHW"}


@dataclass(frozen=True, kw_only=True)
class Reference:
    name: str
    """The code that was measured."""
    publisher: str
    source: str
    """Where the number stands."""
    workload: str
    size: str
    unit: str
    framework: str
    gpu: str
    devices: int
    precision: str
    data: str
    """`real` or `synthetic`."""
    value: float
    """Samples per second over all devices."""
    batch_size_per_device: int | None = None
    layout: str | None = None
    differs: tuple[str, ...] = ()
    """What else was not as in our workload."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A result beside a published number."""

    reference: Reference
    share: Ratio
    """Result over reference; the interval is that of the result."""
    is_same_gpu: bool
    differences: tuple[Message, ...]


def references_folder() -> Path:
    """Inside an installed package, or at the top of a checkout."""
    installed = _PACKAGE / "references"
    return installed if installed.is_dir() else _PACKAGE.parent.parent / "references"


@cache
def load_references() -> tuple[Reference, ...]:
    found: list[Reference] = []
    for path in sorted(references_folder().glob("*.toml")):
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        shared = {name: document.get(name) for name in ("workload", "size", "unit")}
        found += [_read(shared, number) for number in document.get("number", ())]
    return tuple(found)


def _read(shared: dict[str, Any], number: dict[str, Any]) -> Reference:
    return Reference(**{**shared, **number, "differs": tuple(number.get("differs", ()))})


def find_standings(line: Line, references: Sequence[Reference]) -> tuple[Standing, ...]:
    """Those that fit, the same GPU and the nearest batch first; empty where none fits or there is no speed."""
    row, estimate = line.first, line.known
    if estimate is None or why_nothing_fits(row, references) is not None:
        return ()
    fitting = [reference for reference in references if _fits(row, reference)]
    fitting.sort(key=lambda one: (not _is_same_gpu(row, one), one.framework != row.framework, _batch_apart(row, one)))
    return tuple(
        Standing(
            reference=one,
            share=Ratio(
                value=estimate.value / one.value,
                ci95=(estimate.ci95[0] / one.value, estimate.ci95[1] / one.value) if estimate.ci95 else None,
            ),
            is_same_gpu=_is_same_gpu(row, one),
            differences=tuple(_find_differences(row, one)),
        )
        for one in fitting[:_MOST]
    )


def why_nothing_fits(row: RunRow, references: Sequence[Reference]) -> Message | None:
    """The first condition that leaves none; None if at least one fits."""
    if row.device == "cpu":
        return reference_on_cpu()
    left = [one for one in references if one.workload == row.workload and one.unit == row.unit]
    if not left:
        return reference_unknown_workload(workload=row.workload or row.model or row.source)
    kind = data_kind(row)
    if row.precision is None or kind is None or row.devices is None or row.machine is None:
        unknown = {"precision": row.precision, "data": kind, "devices": row.devices, "machine": row.machine}
        return reference_unknown_facts(facts=[name for name, value in unknown.items() if value is None])
    size = row.size or "full"
    for name, value, why in (
        ("size", size, reference_other_size(size=size)),
        ("precision", row.precision, reference_other_precision(precision=row.precision)),
        ("data", kind, reference_other_data(data=kind)),
        ("devices", row.devices, reference_other_devices(devices=row.devices)),
    ):
        left = [one for one in left if getattr(one, name) == value]
        if not left:
            return why
    return None


def data_kind(row: RunRow) -> str | None:
    """`real`, `synthetic`, or None where it is neither or unknown: cached data skips decoding."""
    if row.data is None or row.data.startswith("cached:"):
        return None
    return "synthetic" if row.data == "synthetic" else "real"


def _fits(row: RunRow, one: Reference) -> bool:
    own = (row.workload, row.unit, row.size or "full", row.precision, data_kind(row), row.devices)
    return own == (one.workload, one.unit, one.size, one.precision, one.data, one.devices)


def _is_same_gpu(row: RunRow, one: Reference) -> bool:
    """NVIDIA H200 and NVIDIA H200 SXM are; V100-SXM2-16GB and V100 are."""
    own, other = (_model(name) for name in (row.machine or "", one.gpu))
    return bool(own and other) and own == other


def _model(name: str) -> str | None:
    words = name.replace("-", " ").upper().split()
    return next((word for word in words if any(letter.isdigit() for letter in word) and word[0].isalpha()), None)


def _batch_apart(row: RunRow, one: Reference) -> float:
    if row.batch_size_per_device is None or one.batch_size_per_device is None:
        return 1e9
    return abs(row.batch_size_per_device - one.batch_size_per_device)


def _find_differences(row: RunRow, one: Reference) -> list[Message]:
    found: list[Message] = []
    if not _is_same_gpu(row, one):
        found.append(other_gpu(gpu=one.gpu))
    if row.framework is not None and one.framework != row.framework:
        found.append(other_framework(framework=one.framework))
    flags = row.environment.get("flags")
    own = _LAYOUTS.get(str(flags.get("layout"))) if isinstance(flags, dict) else None
    if one.layout is not None and one.layout != own:
        found.append(other_layout(layout=one.layout))
    if one.batch_size_per_device is not None and one.batch_size_per_device != row.batch_size_per_device:
        found.append(other_batch(batch=one.batch_size_per_device))
    return [*found, *(reference_note(text=note) for note in one.differs)]
