"""`check`: what is a pass, a regression, a failure, and what cannot be judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from making import make_cell
from measured import MACHINE, History, change_end, change_run
from trainmark.analyse.gate_result import CellResult, Finding, GateResult, Status
from trainmark.analyse.tolerance import Metric
from trainmark.controller.checking import check, update
from trainmark.report.gate import answer

OTHER_MACHINE = {**MACHINE, "cpu": "B CPU", "hostname": "two"}
AMP = make_cell(precision="amp")


@pytest.fixture
def store(tmp_path: Path) -> History:
    return History(tmp_path / "runs")


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    return tmp_path / "baseline.toml"


def accept(store: History, baseline: Path) -> None:
    found = update(store.read(), baseline, [])
    assert (found.refusals, bool(found.changes)) == ((), True)


def judge(store: History, baseline: Path) -> GateResult:
    return check(store.read(), baseline, [])


def only(result: GateResult) -> CellResult:
    (cell,) = result.cells
    return cell


def of_metric(result: GateResult, metric: Metric) -> Finding:
    return next(finding for finding in only(result).findings if finding.metric is metric)


def test_no_change_is_a_pass(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    ids = store.measure(100, commit="b" * 40)
    result = judge(store, baseline)
    assert (result.status, result.exit_code) == (Status.PASS, 0)
    assert only(result).run_ids == tuple(ids)
    assert answer(result) == "pass: no regression in 1 cell"


def test_a_slow_down_is_a_regression_and_the_sentence_says_how_much(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    store.measure(95, commit="b" * 40)
    result = judge(store, baseline)
    assert (result.status, result.exit_code) == (Status.REGRESSION, 3)
    finding = of_metric(result, Metric.THROUGHPUT)
    assert finding.ratio == pytest.approx(0.95, abs=0.01)
    assert "resnet50 (small) torch reference fp32, 1 x 1 cpu, batch 4, synthetic: throughput: " in answer(result)
    assert "slower than the baseline" in answer(result)


def test_a_loss_within_the_tolerance_is_a_pass_and_a_gain_too(store: History, baseline: Path) -> None:
    store.measure(100, runs=5)
    accept(store, baseline)
    store.measure(99.2, runs=5)
    assert judge(store, baseline).exit_code == 0
    store.measure(120)
    result = judge(store, baseline)
    assert result.exit_code == 0
    assert of_metric(result, Metric.THROUGHPUT).why.code == "gate-faster"


def test_what_noise_hides_is_inconclusive_and_says_what_would_help(store: History, baseline: Path) -> None:
    store.measure([97.0, 100.0, 103.0])
    accept(store, baseline)
    store.measure([95.0, 99.0, 102.0])
    result = judge(store, baseline)
    assert (result.status, result.exit_code) == (Status.INCONCLUSIVE, 4)
    assert "cannot tell whether more than the 2.0% that are allowed were lost" in answer(result)
    assert "more runs would not decide it" in answer(result)


@pytest.mark.parametrize(
    ("accepted", "now", "says"),
    [
        ([99.0, 99.5, 100.0, 100.5, 101.0, 100.0, 99.8, 100.2], [98.4, 99.2], "; run with --repeat "),
        ([99.3, 100.0, 100.7], [97.8, 98.5, 99.2], "; the baseline has only 3 runs: update it from --repeat "),
    ],
)
def test_the_advice_depends_on_which_side_has_too_few_runs(
    store: History, baseline: Path, accepted: list[float], now: list[float], says: str
) -> None:
    store.measure(accepted)
    accept(store, baseline)
    store.measure(now)
    result = judge(store, baseline)
    assert result.exit_code == 4
    assert says in answer(result)


def test_single_runs_decide_nothing(store: History, baseline: Path) -> None:
    store.measure([100.0, 100.1, 99.9])
    accept(store, baseline)
    text = baseline.read_text()
    values = next(line for line in text.splitlines() if line.startswith("throughput"))
    baseline.write_text(
        text.replace(values, "throughput = [100.0]").replace('last_run = "runs-0000-3"', 'last_run = "x"')
    )
    other = History(store.root.parent / "other")
    other.measure([90.0])
    result = judge(other, baseline)
    assert (result.status, result.exit_code) == (Status.INCONCLUSIVE, 4)


def test_a_failed_run_outweighs_a_regression(store: History, baseline: Path) -> None:
    store.measure(100)
    store.measure(100, cell=AMP)
    accept(store, baseline)
    store.measure(80)
    store.measure(100, cell=AMP, outcomes=("ok", "oom"))
    result = judge(store, baseline)
    assert {cell.status for cell in result.cells} == {Status.FAILED, Status.REGRESSION}
    assert result.exit_code == 1
    assert "1 of 3 runs failed: runs-0003-2: oom" in answer(result)


def test_a_failed_run_of_a_cell_that_is_not_in_the_baseline_counts_too(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    store.measure(100)
    store.measure(100, cell=AMP, outcomes=("hang", "hang", "hang"))
    assert judge(store, baseline).exit_code == 1


def test_a_cell_of_the_baseline_that_was_not_measured_is_no_pass(store: History, baseline: Path) -> None:
    store.measure(100)
    store.measure(100, cell=AMP)
    accept(store, baseline)
    fresh = History(store.root.parent / "fresh")
    fresh.measure(100)
    result = judge(fresh, baseline)
    assert [(cell.status) for cell in result.cells] == [Status.NOT_MEASURED, Status.PASS]
    assert result.exit_code == 4
    assert "in the baseline, but not measured" in answer(result)


def test_nothing_measured_is_no_pass(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    assert judge(History(store.root.parent / "nowhere"), baseline).exit_code == 4


def test_a_baseline_without_cells_is_no_pass(store: History, baseline: Path) -> None:
    store.measure(100)
    baseline.write_text("schema = 1\n")
    result = judge(store, baseline)
    assert (result.status, result.exit_code) == (Status.NOT_MEASURED, 4)
    assert answer(result).startswith("nothing measured: no cell of the baseline could be judged; 1 cell not in the")


def test_the_runs_of_the_baseline_itself_are_not_a_measurement(store: History, baseline: Path) -> None:
    """Else a pipeline whose measurement did not start would be green."""
    store.measure(100)
    accept(store, baseline)
    result = judge(store, baseline)
    assert (result.status, result.exit_code) == (Status.NOT_MEASURED, 4)
    assert "not measured since the baseline was accepted" in answer(result)


def test_a_cell_that_was_only_measured_with_older_code_is_no_pass(store: History, baseline: Path) -> None:
    """Else a pipeline that lost a cell would be judged by last week's runs of it."""
    for commit in ("a" * 40, "b" * 40):
        store.measure(100, commit=commit)
        store.measure(100, cell=AMP, commit=commit)
        if commit[0] == "a":
            accept(store, baseline)
    assert judge(store, baseline).exit_code == 0
    store.measure(100, commit="c" * 40)
    result = judge(store, baseline)
    assert [cell.status for cell in result.cells] == [Status.NOT_MEASURED, Status.PASS]
    assert "not measured with the newest code: its runs are of commit bbbbbbbbbbbb, the newest of cccccccccccc" in (
        answer(result)
    )
    assert check(store.read(since_unix_s=0), baseline, []).exit_code == 0
    store.measure(100, cell=AMP, commit="c" * 40)
    assert judge(store, baseline).exit_code == 0


def test_among_many_cells_one_small_loss_may_be_chance(store: History, baseline: Path) -> None:
    cells = [make_cell(batch_size_per_device=size) for size in range(1, 13)]
    for cell in cells:
        store.measure([99.0, 100.0, 101.0], cell=cell)
    accept(store, baseline)
    for cell in cells[1:]:
        store.measure([99.0, 100.0, 101.0], cell=cell)
    store.measure([96.6, 97.6, 98.6], cell=cells[0])
    result = judge(store, baseline)
    assert result.exit_code == 4
    assert "would be a regression in one cell, but among 12 cells chance gives one like it" in answer(result)


def test_runs_before_since_are_history_only(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    store.measure(80)
    result = check(store.read(since_unix_s=1.7e9 + 1000), baseline, [])
    assert (result.status, result.exit_code) == (Status.NOT_MEASURED, 4)


def test_a_new_cell_is_named_and_does_not_change_the_answer(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    store.measure(100)
    store.measure(50, cell=AMP)
    result = judge(store, baseline)
    assert result.exit_code == 0
    assert answer(result) == "pass: no regression in 1 cell; 1 cell not in the baseline"


def test_another_machine_is_not_comparable_and_the_difference_is_named(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    other = History(store.root.parent / "other")
    other.measure(200, machine=OTHER_MACHINE)
    result = judge(other, baseline)
    assert (result.status, result.exit_code) == (Status.NOT_COMPARABLE, 4)
    assert "measured on another machine than the baseline: cpu A CPU -> B CPU" in answer(result)


def test_each_machine_has_a_baseline_of_its_own(store: History, baseline: Path) -> None:
    store.measure(100)
    store.measure(200, machine=OTHER_MACHINE)
    accept(store, baseline)
    other = History(store.root.parent / "other")
    other.measure(200, machine=OTHER_MACHINE)
    result = judge(other, baseline)
    assert [cell.status for cell in result.cells] == [Status.PASS, Status.SKIPPED]
    assert result.exit_code == 0
    other.measure(180, machine=OTHER_MACHINE)
    assert judge(other, baseline).exit_code == 3


def test_a_run_that_has_not_ended_is_not_a_measurement(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    store.measure(100, runs=2, outcomes=("ok", "nan"))
    assert judge(store, baseline).exit_code == 1


def test_a_run_without_steps_cannot_be_judged(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    store.measure(100, steps=0)
    result = judge(store, baseline)
    assert (result.status, result.exit_code) == (Status.INCONCLUSIVE, 4)
    assert "does not count: it has no throughput" in answer(result)


def test_a_run_that_breaks_a_law_is_not_judged(store: History, baseline: Path) -> None:
    """Four repeats agree and one is 10% off: it may be the machine, or a slow-down that comes and goes."""
    store.measure(100)
    accept(store, baseline)
    store.measure([100.0, 100.1, 99.9, 100.05, 90.0])
    result = judge(store, baseline)
    assert (result.status, result.exit_code) == (Status.INCONCLUSIVE, 4)
    assert "but run runs-0001-5 does not count: it breaks the law far-repeat: " in answer(result)
    refused = update(store.read(), baseline, [])
    assert [str(refusal.why).split(":")[0] for refusal in refused.refusals] == ["has no throughput that can be judged"]


def test_a_regression_stays_one_without_the_run_that_does_not_count(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    store.measure([90.0, 90.1, 89.9, 90.05, 80.0])
    assert judge(store, baseline).exit_code == 3


def test_a_run_whose_files_were_changed_does_not_count(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    ids = store.measure(100)
    change_end(store.root, ids[0], files={"rank0.jsonl": {"num_bytes": 1, "sha256": "0" * 64}})
    result = judge(store, baseline)
    assert result.exit_code == 4
    assert f"run {ids[0]} does not count: its files were changed after it ended" in answer(result)


def test_the_same_code_that_got_slower_is_a_regression(store: History, baseline: Path) -> None:
    """A driver or a hot machine: compared with all earlier repeats the new ones are far, but that is the finding."""
    for _ in range(3):
        store.measure(100)
    accept(store, baseline)
    store.measure(90)
    assert judge(store, baseline).exit_code == 3


def test_too_noisy_is_inconclusive(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    store.measure([60.0, 100.0, 140.0])
    result = judge(store, baseline)
    assert (result.status, result.exit_code) == (Status.INCONCLUSIVE, 4)
    assert "too noisy" in answer(result)


@pytest.mark.parametrize(("memory", "code"), [(1050, 0), (1100, 3), (None, 4)])
def test_memory(store: History, baseline: Path, memory: int | None, code: int) -> None:
    store.measure(100, memory=1000 * 2**20)
    accept(store, baseline)
    store.measure(100, memory=None if memory is None else memory * 2**20 - 2**20)
    result = judge(store, baseline)
    assert result.exit_code == code
    if code == 3:
        assert "peak memory is +9.9% against the worst run of the baseline; 5% is allowed" in answer(result)


@pytest.mark.parametrize(("seconds", "code"), [(1.4, 0), (1.9, 0), (29.0, 0), (33.0, 3)])
def test_time_to_first_step(store: History, baseline: Path, seconds: float, code: int) -> None:
    """By half, and by a second: 1.9 s are half more than 1 s, but not a second more."""
    store.measure(100, first_step_s=1.0 if seconds < 2 else 20.0)
    accept(store, baseline)
    store.measure(100, first_step_s=seconds)
    assert judge(store, baseline).exit_code == code


@pytest.mark.parametrize(("metric", "code"), [(("top1", 0.745), 0), (("top1", 0.73), 3), (("top5", 0.9), 4), (None, 4)])
def test_accuracy(store: History, baseline: Path, metric: tuple[str, float] | None, code: int) -> None:
    store.measure(100, metric=("top1", 0.75))
    accept(store, baseline)
    store.measure(100, metric=metric)
    assert judge(store, baseline).exit_code == code


def test_a_loss_is_not_an_accuracy(store: History, baseline: Path) -> None:
    store.measure(100, metric=("val_loss", 0.75))
    accept(store, baseline)
    assert "accuracy" not in baseline.read_text().split("---- measured")[1]


def test_a_metric_can_be_turned_off_and_a_tolerance_widened(store: History, baseline: Path) -> None:
    store.measure(100, memory=2**30)
    accept(store, baseline)
    store.measure(95, memory=2**31)
    rule = '[[tolerance]]\ncell = "resnet50*"\nmemory = false\nthroughput = 0.1\n'
    baseline.write_text(baseline.read_text().replace("# ---- measured", f"{rule}# ---- measured"))
    result = judge(store, baseline)
    assert result.exit_code == 0
    assert [finding.metric for finding in only(result).findings] == [Metric.THROUGHPUT]


def test_a_sweep_that_was_continued_after_a_commit_is_not_averaged(store: History, baseline: Path) -> None:
    store.measure(100)
    accept(store, baseline)
    before = store.measure(100, commit="b" * 40)
    after = store.measure(90, commit="c" * 40)
    for run_id in after:
        change_run(store.root, run_id, sweep="sweep-1")
    result = judge(store, baseline)
    assert only(result).run_ids == tuple(after)
    assert result.exit_code == 3
    assert before


def test_logs_of_an_unknown_machine_are_judged_with_a_note(store: History, baseline: Path) -> None:
    nowhere = {"cpu": None, "hostname": None}
    store.measure(100, machine=nowhere)
    accept(store, baseline)
    store.measure(100, machine=nowhere)
    result = judge(store, baseline)
    assert result.exit_code == 0
    assert [note.code for note in only(result).notes] == ["gate-unknown-machine"]


def test_a_suite_alone(store: History, baseline: Path) -> None:
    store.measure(100, suite="one")
    store.measure(100, cell=AMP, suite="two")
    accept(store, baseline)
    store.measure(100, suite="one")
    assert judge(store, baseline).exit_code == 4
    assert check(store.read(), baseline, ["one"]).exit_code == 0


def test_the_runs_of_the_baseline_are_not_its_history_too(store: History, baseline: Path) -> None:
    store.measure([99.0, 100.0, 101.0])
    accept(store, baseline)
    store.measure([98.0, 99.5, 100.5])
    alone = History(store.root.parent / "alone")
    alone.measure([98.0, 99.5, 100.5])
    one, other = (of_metric(judge(history, baseline), Metric.THROUGHPUT).ci95 for history in (store, alone))
    assert one is not None
    assert one == pytest.approx(other, rel=1e-3)


def test_history_makes_a_small_slow_down_visible(store: History, baseline: Path) -> None:
    """Two runs a side know their spread badly; ten earlier batches know it well."""
    for _ in range(10):
        store.measure(100, runs=3, spread=0.003)
    store.measure([100.0, 100.9])
    accept(store, baseline)
    store.measure([97.3, 98.2])
    assert judge(store, baseline).exit_code == 3
    alone = History(store.root.parent / "alone")
    alone.measure([97.3, 98.2])
    assert judge(alone, baseline).exit_code == 4
