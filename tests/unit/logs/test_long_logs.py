"""A log with more records than analysis gets rows: nothing is skipped, and the numbers are those of all records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import import_text

from trainmark.logs.rate_summary import RateSums, exact_median
from trainmark.report.document import describe_runs
from trainmark.runfolder import step_table
from trainmark.runfolder.files import STEPS_FILE
from trainmark.runfolder.step_table import StepTableWriter, open_steps


@pytest.mark.parametrize("num", [1, 2, 3, 1000, 100_001])
@pytest.mark.parametrize("kind", ["spread", "ties", "constant", "far"])
def test_the_median_of_parts_is_exact(num: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmark.logs.rate_summary._MAX_COLLECTED", 50)
    dice = np.random.default_rng(num)
    values = {
        "spread": dice.normal(1000, 50, num),
        "ties": dice.integers(0, 3, num).astype(np.float64),
        "constant": np.full(num, 12.5),
        "far": np.where(dice.random(num) < 0.001, 1e12, dice.random(num)),
    }[kind]

    def read() -> Iterator[NDArray[np.float64]]:
        yield from np.array_split(values, 7)

    sums = RateSums()
    for part in read():
        sums.add(part)
    assert exact_median(read, sums) == np.median(values)


def test_every_record_of_a_long_log_counts(tmp_path: Path) -> None:
    num = 3 * step_table.MAX_ROWS + 1234
    dice = np.random.default_rng(1)
    times = np.round(dice.normal(40, 2, num), 2)
    text = "tokens per iteration will be: 1,000\n"
    text += "".join(f"iter {n}: loss 2.1, time {ms:.2f}ms, mfu 1.00%\n" for n, ms in enumerate(times.tolist()))
    row = import_text(tmp_path, text, devices=1)
    assert row.num_records == num
    assert len(row.seconds) <= step_table.MAX_ROWS
    assert row.seconds.sum() == pytest.approx(times.sum() / 1000, rel=1e-12)
    assert row.samples.sum() == 1000 * num
    assert row.rounding.sum() == pytest.approx(0.000005 * num, rel=1e-9)
    (result,) = describe_runs([row])
    assert result["median"] == pytest.approx(1e6 / np.median(times), rel=1e-12)
    assert result["last"] == pytest.approx(1e6 / times[-1], rel=1e-12)
    assert result["mean_of_rates"] == pytest.approx((1e6 / times).mean(), rel=1e-12)
    low, high = result["throughput"]["ci95"]
    assert low < 1e6 / times.mean() < high


def test_a_table_that_was_cut_short_or_is_not_ours_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / STEPS_FILE
    column = np.arange(5.0)
    with StepTableWriter(path, 5, ["seconds", "samples"]) as table:
        table.write({"seconds": column, "samples": column})
    found = open_steps(path)
    assert found is not None
    (part,) = found.parts(100)
    assert (part["seconds"].tolist(), np.isnan(part["loss"]).all()) == (column.tolist(), True)
    assert np.load(path)["samples"].tolist() == column.tolist(), "anybody can open it"
    path.write_bytes(path.read_bytes()[:-3])
    assert open_steps(path) is None
    np.save(path, np.arange(3))
    assert open_steps(path) is None
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert open_steps(path) is None, "nothing is ever unpickled"
    assert open_steps(tmp_path / "absent.npy") is None
