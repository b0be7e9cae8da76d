"""Ceilings of this machine that `doctor --peaks` has measured: kept beside the compile cache, one entry per device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_MATRIX = "matrix_flops_per_s"


def peaks_file(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "trainmark" / "peaks.json"


def read_peaks(environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Empty if nothing was measured; a damaged file counts as none."""
    try:
        found = json.loads(peaks_file(environment).read_text())
    except (OSError, ValueError):
        return []
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def keep_peaks(entry: Mapping[str, Any], environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Replaces an earlier entry of the same device; returns all."""
    others = [known for known in read_peaks(environment) if known.get("device") != entry["device"]]
    path = peaks_file(environment)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps([*others, dict(entry)], indent=1) + "\n")
    unfinished.replace(path)
    return [*others, dict(entry)]


def find_matrix_peak(peaks: Sequence[Mapping[str, Any]], device: str | None, precision: str | None) -> float | None:
    """FLOP/s that a matrix product reached on this device in this precision."""
    entry = next((known for known in peaks if known.get("device") == device), None)
    rates = entry.get(_MATRIX) if entry is not None else None
    found = rates.get(precision) if isinstance(rates, dict) else None
    return float(found) if isinstance(found, int | float) else None


def describe_peaks(peaks: Sequence[Mapping[str, Any]]) -> list[str]:
    """NVIDIA H200: 724 TFLOP/s bf16, 51 fp32; copy 4.26 TB/s; 443 JPEGs/s on one core, 6300 on 16 (2026-11-16, ...)"""
    lines = []
    for entry in peaks:
        matrix = ", ".join(f"{rate / 1e12:.3g} {name}" for name, rate in entry[_MATRIX].items())
        decode = (
            f"{entry['jpegs_per_s_core']:.0f} JPEGs/s on one core, {entry['jpegs_per_s']:.0f} on {entry['num_cores']}"
        )
        clocks = "" if entry.get("clock_mhz") is None else f", {entry['clock_mhz']} MHz"
        lines.append(
            f"{entry['device']}: matrix product {matrix} TFLOP/s; copy {entry['copy_bytes_per_s'] / 1e12:.3g} TB/s; "
            f"{decode} ({entry['date']}, {entry['framework']}{clocks})"
        )
    return lines
