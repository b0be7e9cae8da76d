"""What `benchmarks/fast.py` and `benchmarks/feed.py` keep when they are cut off, and what they say about it."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from trainmark.controller.turns import Prepared, Variant
from trainmark.datasets.png import read_header
from trainmark.errors import RunError
from trainmark.workloads.registry import load_card

_FOLDER = Path(__file__).parents[2] / "benchmarks"
_ARGUMENTS = {
    "size": "full", "batch_size": None, "precision": "bf16", "reference_precision": "amp", "device": "cuda",
    "without": [], "cache": None, "profile": None, "profile_start": None, "rounds": 2, "seconds": 0.1,
}  # fmt: skip
_CEILINGS = {"matrix_bf16_flops_per_s": 8e14, "matrix_amp_flops_per_s": 4e14, "copy_bytes_per_s": 4e12}


@pytest.fixture(params=["fast", "feed"])
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(_FOLDER))
    yield import_module(request.param)
    for name in ("fast", "feed", "json_rows"):
        sys.modules.pop(name, None)


class Imagined(Prepared):
    """200 clips/s with `fast`; `end_at` is the number of the start that fails."""

    end_at: int | None = None
    number = 0

    def __init__(self, variant: Variant) -> None:
        Imagined.number += 1
        self.variant, self.rates, self.peak_memory_bytes = variant, [], None
        self.first = {
            "first_step_s": 10.0 * Imagined.number,
            "imported_s": 1.0,
            "facts": {"optimisations": ["compile"]},
        }

    def wait_for_first_step(self, limit_s: float | None = None) -> Prepared:
        if Imagined.number == self.end_at:
            raise RunError(f"{self.variant.name}: the process ended")
        return self

    def measure(self, seconds: float) -> float:
        self.rates.append(200.0 if self.variant.cell.recipe == "fast" else 100.0)
        return self.rates[-1]

    def load(self, seconds: float) -> float:
        return 300.0

    def end(self) -> None:
        pass


@pytest.fixture
def prepared(module: Any, monkeypatch: pytest.MonkeyPatch) -> type[Imagined]:
    monkeypatch.setattr(module, "Prepared", Imagined)
    monkeypatch.setattr(Imagined, "number", 0)
    return Imagined


only_fast = pytest.mark.parametrize("module", ["fast"], indirect=True)
only_feed = pytest.mark.parametrize("module", ["feed"], indirect=True)


def measure_tsm(module: Any, tmp_path: Path, **changes: Any) -> dict[str, Any]:
    args = Namespace(**{**_ARGUMENTS, **changes})
    module.count_bytes_per_sample = lambda card, args: {"bf16": 1e10, "amp": 2e10}
    kept = module.JsonRows(tmp_path / "rows.jsonl", module.key_of)
    found: dict[str, Any] = module.measure(load_card("tsm"), _CEILINGS, kept, args)
    return found


def read(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]


def test_rows_are_of_the_same_case_only_with_all_the_same_settings(module: Any) -> None:
    args = Namespace(**_ARGUMENTS)
    first = module.settings_of(load_card("tsm") if module.__name__ == "fast" else "tsm", args)
    for name in first:
        assert module.key_of({**first, name: ["other"]}) != module.key_of(first), name
    assert module.key_of({**first, "ratio": 2.0}) == module.key_of(first)


def test_a_line_that_was_cut_off_is_left_out(module: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"workload": "tsm", "size": "full"}\n{"workload": "psenet", "si')
    kept = module.JsonRows(path, module.key_of)
    assert [row["workload"] for row in kept.rows.values()] == ["tsm"]
    kept.put({"workload": "psenet"})
    kept.put({"workload": "psenet", "unit": "images"})
    assert read(tmp_path) == [{"workload": "tsm", "size": "full"}, {"workload": "psenet", "unit": "images"}]


@only_fast
def test_the_row_is_there_before_the_warm_start(module: Any, prepared: type[Imagined], tmp_path: Path) -> None:
    prepared.end_at = 3
    try:
        with pytest.raises(RunError):
            measure_tsm(module, tmp_path)
    finally:
        prepared.end_at = None
    (row,) = read(tmp_path)
    assert (row["first_step_cold_s"], row["first_step_warm_s"]) == (10.0, None)
    prepared.number = 0
    measure_tsm(module, tmp_path)
    (row,) = read(tmp_path)
    assert (row["first_step_cold_s"], row["first_step_warm_s"], row["ratio"]["value"]) == (10.0, 30.0, 2.0)


@only_fast
def test_a_start_with_a_used_cache_is_not_cold(
    module: Any, prepared: type[Imagined], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cache" / "psenet").mkdir(parents=True)
    (tmp_path / "cache" / "psenet" / "kernel").write_text("another's is none of its own")
    assert measure_tsm(module, tmp_path, cache=tmp_path / "cache")["first_step_cold_s"] == 10.0
    prepared.number = 0
    (tmp_path / "cache" / "tsm").mkdir()
    (tmp_path / "cache" / "tsm" / "kernel").write_text("compiled before")
    row = measure_tsm(module, tmp_path, cache=tmp_path / "cache")
    assert row["first_step_cold_s"] is None
    module.print_table([row])
    printed = capsys.readouterr().out
    assert "first step after 30 s with a warm compile cache" in printed
    assert "empty" not in printed


@only_fast
def test_each_recipe_is_set_against_the_ceilings_of_its_precision(
    module: Any, prepared: type[Imagined], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = measure_tsm(module, tmp_path)
    fast, reference = row["recipes"]["fast"], row["recipes"]["reference"]
    # Half the rate, half the peak and twice the bytes.
    assert fast["mfu"] == pytest.approx(reference["mfu"])
    assert fast["memory_fraction"] == pytest.approx(reference["memory_fraction"]) == pytest.approx(0.5)
    fast["mfu"] = 1.2
    module.print_table([row])
    printed = capsys.readouterr().out
    assert "(above the peak of a matrix product)" in printed
    assert "120%" not in printed


@only_feed
def test_a_workload_that_fails_does_not_end_the_others(
    module: Any, prepared: type[Imagined], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_files(name: str, args: Namespace) -> Path:
        if name == "tsm":
            raise subprocess.CalledProcessError(2, "trainmark data make")
        return tmp_path

    prepared.end_at = 2
    monkeypatch.setattr(module, "make_files", make_files)
    words = ["feed.py", "--device", "cuda", "--data", str(tmp_path), "--only", "tsm,psenet,resnet50", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", [*words, "--output", str(tmp_path / "rows.jsonl")])
    try:
        assert module.main() == 1
    finally:
        prepared.end_at = None
    assert [row["workload"] for row in read(tmp_path)] == ["resnet50"]
    assert module.main() == 1  # tsm again
    assert [row["workload"] for row in read(tmp_path)] == ["resnet50", "psenet"]


@only_feed
def test_streets_are_as_large_as_the_real_ones(module: Any, tmp_path: Path) -> None:
    folder = module.make_files("hrnet_w18", Namespace(data=tmp_path, images=3))
    headers = [read_header(path.read_bytes()) for path in folder.rglob("*.png")]
    assert {(header.width, header.height) for header in headers} == {(2048, 1024)}
