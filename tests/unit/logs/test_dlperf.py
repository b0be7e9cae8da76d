"""DLPerf's table, written as logs and imported: the right speed-ups, whatever the order, and the three wrong cells."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from trainmark.analyse.protocols import apply_protocol
from trainmark.analyse.published import scaling_table, speeds_by_case, wrong_cells
from trainmark.analyse.table import build_lines
from trainmark.logs.importing import Task, import_file
from trainmark.logs.record import Facts
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow

ROOT = Path(__file__).parents[3]
REFERENCE: dict[str, Any] = tomllib.loads((ROOT / "references" / "dlperf-resnet50-v100.toml").read_text())
RUNS: dict[str, list[float]] = REFERENCE["runs"]
BATCH: int = REFERENCE["batch_size_per_device"]
CASES = ("1n2g", "1n4g", "1n8g", "2n8g", "4n8g")


def write_log(root: Path, case: str, number: int, rate: float) -> Path:
    """An OneFlow log of 120 iterations: the first 20 at half the speed, then the published one, by time stamp too."""
    nodes, devices = (int(part) for part in case.removesuffix("g").split("n"))
    step_s = nodes * devices * BATCH / rate
    lines = [
        "model = resnet50",
        f"batch_size_per_device = {BATCH}",
        f"gpu_num_per_node = {devices}",
        f"num_nodes = {nodes}",
    ]
    clock = 1597933000.0 + 1000 * number
    for step in range(10, 131, 10):
        warm = step <= 20
        clock += 10 * step_s * (2 if warm else 1)
        speed = rate / 2 if warm else rate
        lines.append(f"train: epoch 0, iter {step}, loss: 7.0, top_1: 0.0, top_k: 0.0, samples/s: {speed!r} {clock!r}")
    path = root / case / f"r50_b{BATCH}_fp32_{number}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[RunRow]:
    root = tmp_path_factory.mktemp("dlperf")
    found = []
    for case, rates in RUNS.items():
        for number, rate in enumerate(rates, start=1):
            path = write_log(root / "logs", case, number, rate)
            result = import_file(
                Task(path=path, store=root / "store", given=Facts(), pattern=None, targets={"resnet50": {}})
            )
            assert result.run_id is not None
            row = read_run(root / "store" / result.run_id)
            assert row is not None
            found.append(row)
    return found


def speeds(rows: list[RunRow], protocol: str) -> dict[str, float]:
    return {row.id: apply_protocol(protocol, row)["value"] for row in rows}


def test_path_and_log_tell_the_case(rows: list[RunRow]) -> None:
    last = rows[-1]
    facts = (last.nodes, last.devices, last.batch_size_per_device, last.precision, last.repeat, last.workload)
    assert facts == (4, 32, 128, "fp32", 6, "resnet50")


@pytest.mark.parametrize("by", ["step", "timestamp", "auto"])
@pytest.mark.parametrize("seed", range(3))
def test_speedups_do_not_depend_on_the_order(by: str, seed: int, rows: list[RunRow]) -> None:
    shuffled = random.Random(seed).sample(rows, len(rows))
    runs = speeds_by_case(shuffled, speeds(shuffled, f"dlperf:by={by}"))
    table = scaling_table(runs, "1n1g")
    assert [f"{table[case].average_speedup:.2f}" for case in CASES] == ["1.80", "3.85", "7.44", "13.88", "26.44"]
    assert [f"{table[case].median_speedup:.2f}" for case in CASES] == ["1.80", "3.86", "7.44", "13.88", "26.51"]
    assert table["4n8g"].average_speed == pytest.approx(
        sum(RUNS["4n8g"]) / 6, rel=1e-7
    )  # a time stamp has microseconds


def test_the_wrong_published_cells_are_named(rows: list[RunRow]) -> None:
    table = scaling_table(speeds_by_case(rows, speeds(rows, "dlperf")), "1n1g")
    wrong = wrong_cells(table, REFERENCE["published"]["speedup"])
    assert [(cell.case, cell.published) for cell in wrong] == [("1n4g", 3.87), ("1n8g", 7.47), ("4n8g", 26.55)]


def test_the_table_of_results_gives_the_same_by_mean(rows: list[RunRow]) -> None:
    """Our own aggregation: repeats pooled, divided by the fewest devices."""
    lines = {line.first.devices: line for line in build_lines(random.Random(5).sample(rows, len(rows)))}
    assert all(len(line.runs) == 6 for line in lines.values())
    quotients = [line.speedup.value for _, line in sorted(lines.items()) if line.speedup is not None]
    assert [f"{value:.2f}" for value in quotients] == ["1.80", "3.85", "7.44", "13.88", "26.44"]


def test_too_few_records_give_a_reason_and_no_number(rows: list[RunRow]) -> None:
    answer = apply_protocol("dlperf:skip=500,by=step", rows[0])
    assert answer["value"] is None
    assert "no records between" in answer["reason"]
