"""Dense peak rates of known GPUs in TFLOP/s, from their makers' data sheets, for the law `above-peak`.

Without sparsity: where a sheet states the rate with sparsity only, half of it. `amp` is the fp16 peak of the tensor
cores. A device that is not here is not checked. Each row names the document that states it. The half-precision rates of
A100, A10, A40, B200, H100, H200, L40 and V100 were compared with public tables of these documents; the others were not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Peak:
    name: str
    """A pattern for the name that drivers and logs print."""
    fp32: float
    tf32: float | None
    """None before Ampere."""
    amp: float
    bf16: float | None
    source: str


PEAKS = (
    Peak(name=r"B200", fp32=80.0, tf32=1250.0, amp=2500.0, bf16=2500.0, source="NVIDIA DGX B200 data sheet, 2024"),
    Peak(name=r"H200 ?NVL", fp32=60.0, tf32=417.5, amp=835.5, bf16=835.5, source="NVIDIA H200 data sheet, 2024"),
    Peak(name=r"G?H200", fp32=67.0, tf32=494.5, amp=989.5, bf16=989.5, source="NVIDIA H200 data sheet, 2024"),
    Peak(name=r"H100 PCIe", fp32=51.2, tf32=378.0, amp=756.5, bf16=756.5, source="NVIDIA H100 data sheet, 2023"),
    Peak(name=r"H100 NVL", fp32=60.0, tf32=417.5, amp=835.5, bf16=835.5, source="NVIDIA H100 data sheet, 2024"),
    Peak(name=r"H[18]00", fp32=67.0, tf32=494.5, amp=989.5, bf16=989.5, source="NVIDIA H100 data sheet, 2023"),
    Peak(name=r"H20", fp32=44.0, tf32=74.0, amp=148.0, bf16=148.0, source="NVIDIA H20 data sheet, 2023"),
    Peak(name=r"A[18]00", fp32=19.5, tf32=156.0, amp=312.0, bf16=312.0, source="NVIDIA A100 data sheet, 2021"),
    Peak(name=r"A10", fp32=31.2, tf32=62.5, amp=125.0, bf16=125.0, source="NVIDIA A10 data sheet, 2021"),
    Peak(name=r"A30", fp32=10.3, tf32=82.0, amp=165.0, bf16=165.0, source="NVIDIA A30 data sheet, 2022"),
    Peak(name=r"A40", fp32=37.4, tf32=74.8, amp=149.7, bf16=149.7, source="NVIDIA A40 data sheet, 2021"),
    Peak(name=r"L40S", fp32=91.6, tf32=183.0, amp=362.05, bf16=362.05, source="NVIDIA L40S data sheet, 2023"),
    Peak(name=r"L40", fp32=90.5, tf32=90.5, amp=181.05, bf16=181.05, source="NVIDIA L40 data sheet, 2023"),
    Peak(name=r"L4", fp32=30.3, tf32=60.0, amp=121.0, bf16=121.0, source="NVIDIA L4 data sheet, 2023"),
    Peak(name=r"V100S", fp32=16.4, tf32=None, amp=130.0, bf16=None, source="NVIDIA V100 data sheet, 2020"),
    Peak(name=r"V100.*PCIe", fp32=14.0, tf32=None, amp=112.0, bf16=None, source="NVIDIA V100 data sheet, 2020"),
    Peak(name=r"V100", fp32=15.7, tf32=None, amp=125.0, bf16=None, source="NVIDIA V100 data sheet, 2020"),
    Peak(name=r"P100", fp32=10.6, tf32=None, amp=21.2, bf16=None, source="NVIDIA P100 data sheet, 2016"),
    Peak(name=r"T4", fp32=8.1, tf32=None, amp=65.0, bf16=None, source="NVIDIA T4 data sheet, 2019"),
)
"""The first whose pattern is a word of the name counts."""


def find_peak(machine: str | None, precision: str | None, *, is_tf32_possible: bool) -> float | None:
    """TFLOP/s of one device; None if the device, or its rate in this precision, is not known.

    `is_tf32_possible`: the source says fp32, but frameworks use TF32 by default and nothing says that it was off.
    """
    peak = next((peak for peak in PEAKS if re.search(rf"\b{peak.name}\b", machine or "", re.IGNORECASE)), None)
    if peak is None:
        return None
    if precision == "fp32" and not is_tf32_possible:
        return peak.fp32
    rates = {"fp32": peak.tf32 or peak.fp32, "tf32": peak.tf32, "amp": peak.amp, "bf16": peak.bf16}
    return rates.get(precision or "")
