"""Ceilings of this machine that `doctor --peaks` has measured: kept beside the compile cache, one entry per device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict

from trainmark.cache_folder import own_cache_folder
from trainmark.runfolder.files import read_bounded, write_text
from trainmark.runfolder.values import as_float, as_int, as_object, as_text

MATRIX_PRECISIONS: Final = ("bf16", "amp", "tf32", "fp32")
"""In which `doctor --peaks` measures a matrix product on a GPU."""
_MATRIX: Final = "matrix_flops_per_s"
_MAX_BYTES = 1 << 20


class Peak(TypedDict):
    """Of one device."""

    device: str
    matrix_flops_per_s: dict[str, float]
    """By precision."""
    copy_bytes_per_s: float
    jpegs_per_s_core: float
    jpegs_per_s: float
    num_cores: int
    clock_mhz: int | None
    date: str
    framework: str


def peaks_file(environment: Mapping[str, str]) -> Path:
    return own_cache_folder(environment) / "peaks.json"


def read_peaks(environment: Mapping[str, str]) -> list[Peak]:
    """Empty if nothing was measured; a damaged file counts as none, and a damaged entry is left out."""
    try:
        found = json.loads(read_bounded(peaks_file(environment), _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    entries = [_read_peak(entry) for entry in found] if isinstance(found, list) else []
    return [entry for entry in entries if entry is not None]


def _read_peak(value: Any) -> Peak | None:
    given = as_object(value)
    device, date, framework = (as_text(given.get(name)) for name in ("device", "date", "framework"))
    copy, core, cores = (as_float(given.get(key)) for key in ("copy_bytes_per_s", "jpegs_per_s_core", "jpegs_per_s"))
    matrix = {name: as_float(rate) for name, rate in as_object(given.get(_MATRIX)).items()}
    num_cores = as_int(given.get("num_cores"))
    if device is None or date is None or framework is None or copy is None or core is None or cores is None:
        return None
    if num_cores is None or None in matrix.values():
        return None
    return Peak(
        device=device,
        matrix_flops_per_s={name: rate for name, rate in matrix.items() if rate is not None},
        copy_bytes_per_s=copy,
        jpegs_per_s_core=core,
        jpegs_per_s=cores,
        num_cores=num_cores,
        clock_mhz=as_int(given.get("clock_mhz")),
        date=date,
        framework=framework,
    )


def keep_peaks(entry: Peak, environment: Mapping[str, str]) -> list[Peak]:
    """Replaces an earlier entry of the same device; returns all."""
    others = [known for known in read_peaks(environment) if known["device"] != entry["device"]]
    path = peaks_file(environment)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps([*others, entry], indent=1) + "\n")
    return [*others, entry]


def find_matrix_peak(peaks: Sequence[Peak], device: str | None, precision: str | None) -> float | None:
    """FLOP/s that a matrix product reached on this device in this precision."""
    entry = next((known for known in peaks if known["device"] == device), None)
    return entry[_MATRIX].get(precision) if entry is not None and precision is not None else None


def describe_peaks(peaks: Sequence[Peak]) -> list[str]:
    """NVIDIA H200: 724 TFLOP/s bf16, 51 fp32; copy 4.26 TB/s; 443 JPEGs/s on one core, 6300 on 16 (2026-11-16, ...)"""
    lines = []
    for entry in peaks:
        matrix = ", ".join(f"{rate / 1e12:.3g} {name}" for name, rate in entry[_MATRIX].items())
        decode = (
            f"{entry['jpegs_per_s_core']:.0f} JPEGs/s on one core, {entry['jpegs_per_s']:.0f} on {entry['num_cores']}"
        )
        clocks = "" if entry["clock_mhz"] is None else f", {entry['clock_mhz']} MHz"
        lines.append(
            f"{entry['device']}: matrix product {matrix} TFLOP/s; copy {entry['copy_bytes_per_s'] / 1e12:.3g} TB/s; "
            f"{decode} ({entry['date']}, {entry['framework']}{clocks})"
        )
    return lines
