"""Two sides joined cell by cell: what is paired, what is not comparable, which runs count, what differs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from comparing import QUIET, make_runs, scaled
from making import make_cell, make_run
from trainmark.analyse.analysis import analyse_steps
from trainmark.analyse.comparison import CellComparison, Comparison, Side, compare
from trainmark.errors import InputError
from trainmark.messages.message import Message
from trainmark.report.comparison import describe_comparison
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow


def read(store: Path) -> list[RunRow]:
    rows = (read_run(folder) for folder in sorted(store.iterdir()))
    return [row for row in rows if row is not None]


def side(store: Path, **facts: Any) -> Side:
    rows = read(store)
    return Side(word=store.name, rows=rows, context=rows, **facts)


def compare_stores(tmp_path: Path, **options: Any) -> Comparison:
    return compare(side(tmp_path / "a"), side(tmp_path / "b"), **options)


def only_cell(found: Comparison) -> CellComparison:
    (cell,) = found.cells
    return cell


# -- the join ----------------------------------------------------------------------------------------------------------


def test_a_commit_that_is_slower(tmp_path: Path) -> None:
    make_runs(tmp_path / "a")
    make_runs(tmp_path / "b", scaled(0.95), commit="b2")
    cell = only_cell(found := compare_stores(tmp_path))
    assert cell.verdict == "slower"
    assert cell.judgement.ratio is not None
    assert cell.judgement.ratio.value == pytest.approx(0.95, rel=0.002)
    assert [(item.axis, item.name) for item in found.differences] == [("code", "commit")]
    assert (cell.unit, cell.name) == ("images", "resnet50 (small) torch reference fp32, 1 x 1 cpu, batch 4, synthetic")


def test_cells_are_joined_by_their_work_and_missing_ones_are_named(tmp_path: Path) -> None:
    for store, factor in (("a", 1.0), ("b", 0.95)):
        for precision in ("fp32", "amp"):
            make_runs(tmp_path / store, scaled(factor), cell=make_cell(precision=precision))
    make_runs(tmp_path / "a", cell=make_cell(workload="tsm"))
    make_runs(tmp_path / "b", cell=make_cell(workload="psenet"))
    found = compare_stores(tmp_path)
    pairs = [(cell.a.first.precision, cell.b.first.precision, cell.verdict) for cell in found.cells]
    assert pairs == [("fp32", "fp32", "slower"), ("amp", "amp", "slower")]
    assert [group.first.workload for group in found.only_a] == ["tsm"]
    assert [group.first.workload for group in found.only_b] == ["psenet"]
    assert found.geomean is not None
    assert found.geomean.value == pytest.approx(0.95, rel=0.002)
    assert found.geomean.ci95 is not None
    assert found.geomean.ci95[0] < 0.95 < found.geomean.ci95[1] < 1
    assert found.num_averaged == 2


@pytest.mark.parametrize("name", ["recipe", "precision"])
def test_recipes_and_precisions_are_compared(name: str, tmp_path: Path) -> None:
    one, other = {"recipe": ("reference", "fast"), "precision": ("fp32", "amp")}[name]
    for size in ("small", "medium"):
        make_runs(tmp_path / "a", cell=make_cell(**{name: one}, size=size))
        make_runs(tmp_path / "b", scaled(1.5), cell=make_cell(**{name: other}, size=size))
    found = compare_stores(tmp_path)
    assert [cell.verdict for cell in found.cells] == ["faster", "faster"]
    assert [(cell.a.first.size, cell.b.first.size) for cell in found.cells] == [
        ("small", "small"),
        ("medium", "medium"),
    ]
    assert other not in found.cells[0].name
    assert [item.name for item in found.differences] == [name]


def test_frameworks_have_a_ratio_but_no_winner(tmp_path: Path) -> None:
    make_runs(tmp_path / "a")
    make_runs(tmp_path / "b", scaled(1.5), cell=make_cell(framework="paddle"), framework="paddle 3.3")
    cell = only_cell(compare_stores(tmp_path))
    assert cell.verdict == "not_comparable"
    assert "not proven equal" in str(cell.judgement.why)
    assert cell.judgement.ratio is not None
    assert cell.judgement.ratio.value == pytest.approx(1.5, rel=0.002)


def test_cells_that_are_not_comparable_are_not_averaged(tmp_path: Path) -> None:
    for size in ("small", "medium"):
        make_runs(tmp_path / "a", cell=make_cell(size=size))
        make_runs(tmp_path / "b", scaled(1.5), cell=make_cell(framework="paddle", size=size), framework="paddle 3.3")
    found = compare_stores(tmp_path)
    assert [cell.verdict for cell in found.cells] == ["not_comparable"] * 2
    assert (found.geomean, found.num_averaged) == (None, 0)
    assert describe_comparison(found)["geomean"] is None
    assert "geometric mean" not in describe_comparison(found)["answer"]


def test_other_work_is_not_comparable_unless_it_is_varied(tmp_path: Path) -> None:
    make_runs(tmp_path / "a")
    make_runs(tmp_path / "b", scaled(1.2), cell=make_cell(batch_size_per_device=8))
    cell = only_cell(found := compare_stores(tmp_path))
    assert (cell.verdict, cell.judgement.ratio) == ("not_comparable", None)
    assert str(cell.judgement.why) == "the work differs: batch size per device (4, 8)"
    assert (cell.blocking, found.geomean) == (("batch size per device",), None)
    assert only_cell(compare_stores(tmp_path, vary={"batch size per device"})).verdict == "faster"


def test_two_unlike_things_have_nothing_in_common(tmp_path: Path) -> None:
    for workload in ("tsm", "psenet"):
        make_runs(tmp_path / "a", cell=make_cell(workload=workload))
    make_runs(tmp_path / "b", cell=make_cell(workload="mask_rcnn"))
    found = compare_stores(tmp_path)
    assert (found.cells, len(found.only_a), len(found.only_b)) == ((), 2, 1)


def test_two_commits_on_one_side_are_ambiguous(tmp_path: Path) -> None:
    make_runs(tmp_path / "a", commit="a1")
    make_runs(tmp_path / "a", commit="c3")
    make_runs(tmp_path / "b", commit="b2")
    with pytest.raises(InputError, match=r"A has 2 measurements of resnet50: commit a1a1a1a1a1a1 \(3 runs\)") as error:
        compare_stores(tmp_path)
    assert error.value.hint == "choose one, such as: a@c3c3c3c3c3c3"


def test_the_same_runs_on_both_sides_are_refused(tmp_path: Path) -> None:
    make_runs(tmp_path / "a")
    with pytest.raises(InputError, match="3 runs in both A"):
        compare(same := side(tmp_path / "a"), same)


# -- what differs ------------------------------------------------------------------------------------------------------


def test_only_differences_are_listed_the_settings_too(tmp_path: Path) -> None:
    make_runs(tmp_path / "a", flags={"tf32_matmul": False, "cudnn_benchmark": True}, driver="570")
    make_runs(tmp_path / "b", flags={"tf32_matmul": True, "cudnn_benchmark": True}, driver="580", hostname="node1")
    found = compare_stores(tmp_path)
    listed = [(item.axis, item.name, item.one, item.other) for item in found.differences]
    assert listed == [
        ("code", "driver", "570", "580"),
        ("machine", "host", "node0", "node1"),
        ("settings", "tf32_matmul", "False", "True"),
    ]


# -- which runs count --------------------------------------------------------------------------------------------------


def test_runs_that_prove_nothing_are_left_out_and_named(tmp_path: Path) -> None:
    make_runs(tmp_path / "a")
    make_runs(tmp_path / "b", scaled(0.95))
    make_run(tmp_path / "b", "failed", outcome="oom", reason="out of memory")
    changed = make_runs(tmp_path / "b", [40.0])[0]
    exit_file = tmp_path / "b" / changed / "exit.json"
    ending = json.loads(exit_file.read_text())
    seal = {"rank0.jsonl": {"num_bytes": 1, "sha256": "0" * 64}}
    exit_file.write_text(json.dumps({**ending, "files": seal}))
    cell = only_cell(compare_stores(tmp_path))
    assert (cell.verdict, cell.judgement.runs) == ("slower", (3, 3))
    assert {left.why.code for left in cell.left_out} == {"run-not-ok", "run-changed"}


def test_a_run_that_breaks_a_law_is_left_out_unless_accepted(tmp_path: Path) -> None:
    make_runs(tmp_path / "a")
    copied = make_runs(tmp_path / "b")
    source, copy = (tmp_path / "b" / name / "rank0.jsonl" for name in copied[:2])
    copy.write_text(source.read_text())
    cell = only_cell(compare_stores(tmp_path))
    (left,) = cell.left_out
    assert (left.side, left.why.code) == ("B", "run-breaks-law")
    assert "identical-repeat" in str(left.why)
    assert cell.judgement.runs == (3, 2)


def test_a_side_that_is_too_noisy_is_inconclusive(tmp_path: Path) -> None:
    make_runs(tmp_path / "a")
    make_runs(tmp_path / "b", scaled(0.7), jitter=1.0)
    rows = [dataclasses.replace(row, analysis=noisy(row)) for row in read(tmp_path / "b")]
    found = compare(side(tmp_path / "a"), Side(word="b", rows=rows, context=rows))
    cell = only_cell(found)
    assert cell.verdict == "inconclusive"
    assert str(cell.judgement.why).startswith("no usable run of B: too noisy")


def test_runs_that_differ_too_much_have_no_ratio(tmp_path: Path) -> None:
    """Ten times faster, but the mean of B is not a number that any output shows."""
    make_runs(tmp_path / "a")
    make_runs(tmp_path / "b", [600.0, 1000.0, 1400.0])
    cell = only_cell(compare_stores(tmp_path))
    assert (cell.verdict, cell.judgement.ratio, cell.values[1]) == ("inconclusive", None, None)
    assert str(cell.judgement.why).startswith("B is too noisy: its runs are between 600.0 and 1,400")
    assert cell.judgement.more_runs


def noisy(row: RunRow) -> dict[str, Any]:
    """The analysis of a run whose interval is ±60%."""
    found = analyse_steps(row).to_json()
    value = found["estimate"]["value"]
    return {**found, "estimate": {**found["estimate"], "ci95": (0.4 * value, 1.6 * value)}}


def refused(row: RunRow) -> dict[str, Any]:
    """The analysis of a run that drifted."""
    found = analyse_steps(row).to_json()
    doubt = Message(code="drift", recorded="the speed drifted").to_json()
    none = {"ci95": None, "std_error": None, "dof": None}
    return {**found, "estimate": {**found["estimate"], **none, "doubts": [doubt]}}


@pytest.mark.parametrize(("speeds", "verdict"), [(QUIET, "same"), (QUIET[:1], "inconclusive")])
def test_runs_without_an_interval_count_if_there_are_several(
    speeds: tuple[float, ...], verdict: str, tmp_path: Path
) -> None:
    """The spread between them is the error; a single one could be anywhere."""
    make_runs(tmp_path / "a")
    make_runs(tmp_path / "b", speeds)
    rows = [dataclasses.replace(row, analysis=refused(row)) for row in read(tmp_path / "b")]
    cell = only_cell(compare(side(tmp_path / "a"), Side(word="b", rows=rows, context=rows)))
    assert cell.verdict == verdict
    assert [doubt.code for doubt in cell.doubts[1]] == ["drift"]
    assert verdict == "same" or "the only run of B has no interval: the speed drifted" in str(cell.judgement.why)


def test_a_far_run_is_named(tmp_path: Path) -> None:
    make_runs(tmp_path / "a")
    ids = make_runs(tmp_path / "b", [95.0, 300.0, 95.1])
    cell = only_cell(compare_stores(tmp_path))
    assert [left.run_id for left in cell.left_out] == [ids[1]]
    assert (cell.verdict, cell.judgement.runs) == ("slower", (3, 2))
    assert cell.values[1] == pytest.approx(95.05, rel=0.01)


def test_a_run_that_a_law_leaves_out_for_being_far_prevents_same(tmp_path: Path) -> None:
    """It may be a slow-down that comes and goes."""
    make_runs(tmp_path / "a", [100.0, 100.05, 99.95, 100.02])
    make_runs(tmp_path / "b", [100.0, 100.04, 97.0, 100.02, 99.97])
    cell = only_cell(compare_stores(tmp_path))
    assert [left.why.code for left in cell.left_out] == ["run-breaks-law"]
    assert (cell.verdict, cell.judgement.runs) == ("inconclusive", (4, 4))
    assert "one run of B is -3.0% from all the others" in str(cell.judgement.why)


def test_the_history_of_the_cell_decides_between_single_runs(tmp_path: Path) -> None:
    for commit in ("d4", "e5", "f6"):
        make_runs(tmp_path / "all", QUIET, commit=commit)
    make_runs(tmp_path / "all", [100.0], commit="a1")
    make_runs(tmp_path / "all", [95.0], commit="b2")
    make_runs(tmp_path / "all", [50.0, 150.0], commit="c3", cpu="Xeon")  # another machine: not its history
    rows = read(tmp_path / "all")
    last = [row for row in rows if row.environment["git"]["commit"][:2] in ("a1", "b2")]
    a, b = (Side(word=row.id, rows=[row], context=rows) for row in last)
    cell = only_cell(compare(a, b))
    assert (cell.verdict, cell.num_history) == ("slower", 9)
    alone = only_cell(compare(*(Side(word=row.id, rows=[row], context=[row]) for row in last)))
    assert (alone.verdict, alone.num_history) == ("inconclusive", 0)


# -- time to train -----------------------------------------------------------------------------------------------------


def evaluations(*epochs: int) -> list[dict[str, Any]]:
    return [
        {"kind": "eval", "step": epoch, "epoch": epoch, "time_s": 10.0 * epoch, "metric": "top1", "value": 0.8}
        for epoch in epochs
    ]


def test_epochs_to_the_target_are_apart_from_the_verdict(tmp_path: Path) -> None:
    cell = make_cell(until_target=(("top1", 0.759),))
    for store, all_epochs in (("a", (14, 14, 15)), ("b", (20, 21, 14))):
        for epochs, speed in zip(all_epochs, QUIET, strict=True):
            make_runs(tmp_path / store, [speed], cell=cell, extra=evaluations(epochs))
    found = only_cell(compare_stores(tmp_path))
    assert found.verdict == "same"  # B needs more epochs: that is not its speed
    assert found.epochs == ((14, 14, 15), (20, 21, 14))
    assert found.epochs_ratio is not None
    assert found.epochs_ratio.value == pytest.approx(1.26, abs=0.01)
