"""Each law: a case that breaks it, and a near one that does not; for own runs and, where it differs, for logs."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from making import make_cell, make_run
from old_store import unpack
from trainmark.analyse.distributions import t_two_sided
from trainmark.analyse.estimate import Estimate
from trainmark.analyse.laws import LAWS, broken_laws, is_admitted, judge, marks_of
from trainmark.analyse.line_laws import find_outliers
from trainmark.analyse.peaks import PEAKS, find_peak
from trainmark.analyse.table import build_lines
from trainmark.messages.message import find_declaration
from trainmark.report.document import result_analyser
from trainmark.store.folder import read_run
from trainmark.store.index import Store
from trainmark.store.rows import RunRow


class Runs:
    """Own runs of one cell, or of one cell on several devices."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.rows: list[RunRow] = []

    def add(
        self,
        step_s: float = 0.1,
        *,
        devices: int = 1,
        jitter: float = 0.001,
        seed: int | None = None,
        env: dict[str, Any] | None = None,
        first_loss: float | None = None,
        seconds: list[float] | None = None,
        records: list[dict[str, Any]] | None = None,
        evals: list[dict[str, Any]] | None = None,
        **cell: Any,
    ) -> Runs:
        noise = random.Random(len(self.rows) if seed is None else seed)
        extra = [{"kind": "eval", **found} for found in evals or []]
        folder = make_run(
            self._root, f"r{len(self.rows)}", cell=make_cell(devices_per_node=devices, **cell), extra=extra,
            seconds=seconds or [step_s * (1 + jitter * noise.gauss(0, 1)) for _ in range(60)],
        )  # fmt: skip
        lines = [json.loads(line) for line in (folder / "rank0.jsonl").read_text().splitlines()]
        if first_loss is not None:
            lines[0]["loss"] = first_loss
        for line, more in zip(lines, records or [], strict=False):
            line.update(more)
        (folder / "rank0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if env is not None:
            (folder / "env.json").write_text(json.dumps(env))
        row = read_run(folder)
        assert row is not None
        self.rows.append(row)
        return self

    def marked(self) -> list[tuple[str, str]]:
        judge(self.rows)
        return [(row.id, mark.law) for row in self.rows for mark in marks_of(row)]


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def test_every_law_has_a_message_and_a_formula() -> None:
    for code, law in LAWS.items():
        assert find_declaration(code).title
        assert law.formula
        assert law.marks


# -- devices -----------------------------------------------------------------------------------------------------------


def test_a_speedup_above_the_devices(runs: Runs) -> None:
    assert runs.add(0.1).add(0.0975, devices=2).marked() == [("r1", "superlinear")]  # 2.05 times


def test_a_speedup_near_the_devices(runs: Runs) -> None:
    assert runs.add(0.1).add(0.0995, devices=2).marked() == []  # 2.01 times
    assert runs.add(0.1, batch_size_per_device=8).add(0.096, jitter=0.4, devices=2).marked() == [], "not known so well"


def test_more_devices_slower(runs: Runs) -> None:
    assert runs.add(0.1).add(0.21, devices=2).marked() == [("r1", "more-is-slower")]


def test_more_devices_not_slower(runs: Runs) -> None:
    assert runs.add(0.1).add(0.199, devices=2).marked() == []


def test_a_base_that_is_too_noisy_gives_no_speedup(runs: Runs) -> None:
    runs.add(seconds=[0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 9.0, 0.1, 5.0]).add(0.1, devices=2)
    (base,) = (line.estimate for line in build_lines(runs.rows) if line.first.devices == 1)
    assert base is not None
    assert base.is_too_noisy
    assert runs.marked() == []


# -- the clock ---------------------------------------------------------------------------------------------------------


def stamped(period_s: float) -> list[dict[str, Any]]:
    """Of 60 records, written so many seconds after one another."""
    return [{"unix_s": 1.7e9 + n * period_s} for n in range(60)]


def test_a_rate_above_the_time_of_day(runs: Runs) -> None:
    assert runs.add(0.1, records=stamped(0.2)).marked() == [("r0", "faster-than-clock")]


def test_a_rate_that_the_time_of_day_confirms(runs: Runs) -> None:
    pause = {"kind": "phase", "phase": "eval", "edge": "end", "step": 60, "seconds": 6.0}
    assert runs.add(0.1, records=stamped(0.11)).marked() == []
    assert runs.add(0.1, records=[*stamped(0.2)[:-1], {"unix_s": 1.7e9 + 11.8}, pause]).marked() == [], "a pause"


def test_a_rate_above_the_stamps_of_the_records(runs: Runs) -> None:
    records = [{"time_s": n * 0.2} for n in range(60)]
    assert runs.add(0.1, records=records).marked() == [("r0", "faster-than-clock")]
    assert runs.add(0.1, records=[{"time_s": n * 0.11} for n in range(60)]).marked()[1:] == []


# -- the device --------------------------------------------------------------------------------------------------------

FLOPS = 3 * 2 * 4.089e9
"""Of an image of ResNet-50."""


@pytest.mark.parametrize(("share", "marks"), [(1.01, ["above-peak"]), (0.99, [])])
def test_flops_above_the_peak(runs: Runs, share: float, marks: list[str]) -> None:
    step_s = 2 * 256 * FLOPS / (2 * 989.5e12 * share)
    runs.add(
        step_s, devices=2, batch_size_per_device=256, size="full", precision="amp", device="cuda", jitter=0.0001,
        env={"device_name": "NVIDIA H200"},
    )  # fmt: skip
    assert [law for _, law in runs.marked()] == marks


@pytest.mark.parametrize(("share", "marks"), [(1.22, ["above-peak"]), (1.18, [])])
def test_flops_above_what_a_matrix_product_reached(runs: Runs, share: float, marks: list[str]) -> None:
    """On a device whose data sheet is not known; measurements of a product differ by up to 19%."""
    runs.add(
        256 * FLOPS / (500e12 * share), batch_size_per_device=256, size="full", precision="bf16", device="cuda",
        jitter=0.0001, env={"device_name": "Imaginary 9000", "matrix_flops_per_s": 500e12},
    )  # fmt: skip
    assert [law for _, law in runs.marked()] == marks


def test_peaks_by_the_names_that_drivers_print() -> None:
    assert find_peak("NVIDIA A100-SXM4-80GB", "tf32", is_tf32_possible=False) == 156.0
    assert find_peak("Tesla V100-PCIE-16GB", "amp", is_tf32_possible=False) == 112.0
    assert find_peak("Tesla V100-SXM2-32GB", "tf32", is_tf32_possible=False) is None
    assert find_peak("NVIDIA A10G", "amp", is_tf32_possible=False) is None, "not an A10"
    assert find_peak("NVIDIA A100-PCIE-40GB", "fp32", is_tf32_possible=True) == 156.0
    assert find_peak("AMD EPYC", "fp32", is_tf32_possible=False) is None
    assert all(peak.source for peak in PEAKS)


# -- the training ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "marks"), [(1.02, ["impossible-metric"]), (1.0, []), (-0.1, ["impossible-metric"])])
def test_accuracy_above_one(runs: Runs, value: float, marks: list[str]) -> None:
    runs.add(evals=[{"step": 60, "epoch": 1.0, "time_s": 6.0, "metric": "top1", "value": value}])
    assert [law for _, law in runs.marked()] == marks


@pytest.mark.parametrize(
    ("loss", "marks"), [(7.2, []), (5.3, []), (4.0, ["odd-first-loss"]), (9.0, ["odd-first-loss"])]
)
def test_the_first_loss_of_a_thousand_classes(runs: Runs, loss: float, marks: list[str]) -> None:
    assert [law for _, law in runs.add(first_loss=loss, env={"num_classes": 1000}).marked()] == marks


def test_the_first_loss_depends_on_the_classes_and_the_start(runs: Runs, tmp_path: Path) -> None:
    assert runs.add(first_loss=0.97, env={"num_classes": 2}).marked() == []
    resumed = [{}, {"kind": "phase", "phase": "resume", "edge": "end", "step": 1}]
    assert Runs(tmp_path / "resumed").add(first_loss=2.5, records=resumed).marked() == []
    assert Runs(tmp_path / "psenet").add(first_loss=0.1, workload="psenet").marked() == [], "not cross-entropy"


# -- repeats -----------------------------------------------------------------------------------------------------------


def test_a_copy_is_not_a_repeat(runs: Runs) -> None:
    assert runs.add(seed=1).add(seed=2).add(seed=1).marked() == [("r2", "identical-repeat")]


def test_equal_steps_that_say_nothing_are_no_copy(runs: Runs) -> None:
    """A fake clock, or a log with few digits."""
    assert runs.add(jitter=0.0).add(jitter=0.0).marked() == []


def test_a_repeat_far_from_the_others(runs: Runs) -> None:
    for step_s in (0.1, 0.1005, 0.1002, 0.0998, 0.131):
        runs.add(step_s)
    assert runs.marked() == [("r4", "far-repeat")]


def test_one_of_three_repeats_far_from_two_that_agree(runs: Runs) -> None:
    for step_s in (0.1, 0.1005, 0.13):
        runs.add(step_s)
    assert runs.marked() == [("r2", "far-repeat")]


def test_three_repeats_that_say_too_little(runs: Runs) -> None:
    for step_s in (0.1, 0.1005, 0.11):
        runs.add(step_s)
    assert runs.marked() == []


def test_a_repeat_that_the_spread_of_the_others_explains(runs: Runs) -> None:
    for step_s in (0.1, 0.115, 0.107, 0.094, 0.131):
        runs.add(step_s)
    assert runs.marked() == []


@pytest.mark.parametrize("num", [3, 5, 10])
def test_repeats_marked_by_mistake_are_one_in_a_hundred(num: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Normal repeats, without the least difference of 2%, which hides most marks where the spread is small."""
    monkeypatch.setattr("trainmark.analyse.line_laws._MIN_APART", 0.0)
    noise = random.Random(num)
    trials = 1000
    sets = ([measured(math.exp(0.03 * noise.gauss(0, 1))) for _ in range(num)] for _ in range(trials))
    assert sum(any(find_outliers(repeats)) for repeats in sets) <= stats.binom.ppf(0.9999, trials, 0.01)


def measured(value: float) -> Estimate:
    return Estimate(value=value, ci95=None, num_steps=60, num_warmup_steps=0, method="none", std_error=None, dof=None)


def test_the_chance_is_student_t() -> None:
    for dof in (1, 2, 3, 8, 21):
        for t in (0.3, 4.0, 63.0):
            assert t_two_sided(t, dof) == pytest.approx(2 * stats.t.sf(t, dof), abs=1e-12)


# -- real runs ---------------------------------------------------------------------------------------------------------


def test_no_run_of_an_old_store_is_marked(tmp_path: Path) -> None:
    store = Store(unpack(tmp_path), analyser=result_analyser())
    store.sync()
    rows = store.rows()
    judge(rows)
    assert [row.id for row in rows if not is_admitted(row)] == []


# -- accepting ---------------------------------------------------------------------------------------------------------


def test_an_accepted_law_admits_the_run_and_stays_visible(runs: Runs, tmp_path: Path) -> None:
    from trainmark.runfolder.acceptance import Acceptance, accept

    runs.add(0.1).add(0.08, devices=2)
    judge(runs.rows)
    assert [law.code for law in broken_laws(runs.rows[1])] == ["superlinear"]
    assert not is_admitted(runs.rows[1])
    accept(tmp_path / "r1", Acceptance("superlinear", "fits into the cache", 1.0))
    row = read_run(tmp_path / "r1")
    assert row is not None
    judge([runs.rows[0], row])
    assert is_admitted(row)
    assert [mark.to_json()["accepted"] for mark in marks_of(row)] == [{"because": "fits into the cache", "unix_s": 1.0}]
    assert not any(warning["code"] == "changed-after-end" for warning in row.warnings)
