"""Ceilings and compiled kernels are kept from run to run, and found again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from schema_checking import check_document
from trainmark.cache_folder import compile_cache_folder, count_bytes
from trainmark.cli.main import main
from trainmark.measured_peaks import Peak, describe_peaks, find_matrix_peak, keep_peaks, peaks_file, read_peaks
from trainmark.worker.torch import ceilings


def entry(device: str, bf16: float) -> Peak:
    return {
        "device": device, "matrix_flops_per_s": {"bf16": bf16}, "copy_bytes_per_s": 4.26e12, "jpegs_per_s_core": 443.2,
        "jpegs_per_s": 6300.0, "num_cores": 16, "clock_mhz": 1980, "date": "2026-11-16", "framework": "torch 2.11.0",
    }  # fmt: skip


def test_the_last_measurement_of_a_device_counts(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    assert read_peaks(environment) == []
    for rate, device in ((700e12, "NVIDIA H200"), (300e12, "NVIDIA A100"), (724e12, "NVIDIA H200")):
        keep_peaks(entry(device, rate), environment)
    peaks = read_peaks(environment)
    assert find_matrix_peak(peaks, "NVIDIA H200", "bf16") == 724e12
    assert find_matrix_peak(peaks, "NVIDIA H200", "fp32") is None
    assert find_matrix_peak(peaks, "another", "bf16") is None
    assert describe_peaks(peaks)[1] == (
        "NVIDIA H200: matrix product 724 bf16 TFLOP/s; copy 4.26 TB/s; 443 JPEGs/s on one core, 6300 on 16 "
        "(2026-11-16, torch 2.11.0, 1980 MHz)"
    )


def test_a_damaged_entry_or_file_counts_as_none(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    keep_peaks(entry("NVIDIA H200", 700e12), environment)
    path = peaks_file(environment)
    damaged = ({"device": 3}, {"device": "a"}, 7, {**entry("b", 1.0), "jpegs_per_s": "many"})
    path.write_text(json.dumps([*json.loads(path.read_text()), *damaged]))
    assert [peak["device"] for peak in read_peaks(environment)] == ["NVIDIA H200"]
    for text in ("{broken", "[" * 100_000, "3"):
        path.write_text(text)
        assert read_peaks(environment) == []
    path.unlink()
    os.mkfifo(path)  # must not block
    assert read_peaks(environment) == []


def test_the_compile_cache_is_where_the_user_wants_it(tmp_path: Path) -> None:
    assert compile_cache_folder({"TORCHINDUCTOR_CACHE_DIR": "/a/b"}) == Path("/a/b")
    assert compile_cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/trainmark/compiled")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "kernel").write_bytes(bytes(100))
    assert count_bytes(tmp_path / "inside") == 100
    assert count_bytes(tmp_path / "nothere") == 0


def test_ceilings_are_measured_kept_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Small ones, and of this process: a process of its own takes seconds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(ceilings, "_MATRIX_SIDE", {"cpu": 64})
    monkeypatch.setattr(ceilings, "_COPY_BYTES", {"cpu": 1 << 16})
    monkeypatch.setattr(ceilings, "jpegs_per_s", lambda: (400.0, 800.0))

    def measure(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        found = ceilings.measure_ceilings(torch.device(argv[-1]))
        return subprocess.CompletedProcess(argv, 0, stdout=f"{json.dumps(found)}\n", stderr="")

    # Not the run() of the module itself: Python's `platform` starts a process by it too.
    monkeypatch.setattr("trainmark.controller.peaks.subprocess", SimpleNamespace(run=measure))
    assert main(["doctor", "--peaks", "--device", "cpu", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check_document("doctor-peaks", document)
    (peak,) = document["peaks"]
    assert min(peak["matrix_flops_per_s"].values()) > 0
    assert peak["copy_bytes_per_s"] > 0
    assert main(["doctor", "--json", "--store", str(tmp_path)]) == 0
    known = json.loads(capsys.readouterr().out)
    check_document("doctor", known)
    assert known["peaks"] == document["peaks"]
