"""Studies from rows whose numbers were worked out by hand."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from making import make_cell, make_run
from reporting import markdown_of
from trainmark.analyse.scaling import Asked, Study, build_studies
from trainmark.analyse.table import build_lines
from trainmark.messages.message import Message
from trainmark.messages.skips import too_few_cores
from trainmark.report.scaling import describe_studies, explain, print_studies
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow


class Rows:
    """Run folders whose steps all take the same time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.rows: list[RunRow] = []

    def add(
        self,
        devices: int,
        step_s: float,
        *,
        batch: int = 4,
        exposed_s: float | None = None,
        compute_s: float = 0.0,
        outcome: str = "ok",
        reason: str = "done",
        env: dict[str, Any] | None = None,
        **cell: Any,
    ) -> Rows:
        pairs = [[compute_s + (exposed_s or 0), compute_s]] * 6
        record = {
            "kind": "communication", "reason": None, "pairs": pairs, "gradient_bytes": 100 << 20,
            "num_ranks": devices, "all_reduce_s": [0.5],
        }  # fmt: skip
        extra = [record] if exposed_s is not None else []
        nodes = cell.get("nodes", 1)
        own = make_cell(devices_per_node=devices // nodes, batch_size_per_device=batch, **cell)
        folder = make_run(
            self._root, f"r{len(self.rows)}", cell=own, seconds=[step_s] * 40, outcome=outcome, reason=reason,
            extra=extra,
        )  # fmt: skip
        if env is not None:
            (folder / "env.json").write_text(json.dumps(env))
        row = read_run(folder)
        assert row is not None
        self.rows.append(row)
        return self

    def studies(self, asked: tuple[Asked, ...] = ()) -> tuple[Study, ...]:
        return build_studies(build_lines(self.rows), asked)


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    return Rows(tmp_path)


def asked(devices: int, *, nodes: int = 1, why: Message | None = None, batch: int = 4) -> Asked:
    return Asked(
        workload="resnet50", framework="torch", recipe="reference", precision="fp32", size="small", device="cpu",
        data="synthetic", epochs=None, nodes=nodes, devices=devices, batch_size_per_device=batch, why_skipped=why,
    )  # fmt: skip


def console_text(studies: tuple[Study, ...], width: int = 80) -> str:
    file = io.StringIO()
    print_studies(studies, Console(file=file, width=width))
    return file.getvalue()


def test_weak_scaling_names_communication(rows: Rows) -> None:
    """1: 4 / 0.5 s = 8/s; 2: 8 / 1.25 s = 6.4/s. 0.75 s lost: 0.6 exchange, 0.1 computing, 0.05 neither."""
    rows.add(1, 0.5).add(2, 1.25, exposed_s=0.6, compute_s=0.6)
    (study,) = rows.studies()
    assert (study.mode, study.batch_size) == ("weak", 4)
    base, two = study.cases
    assert base is study.baseline
    assert base.speedup is None
    assert two.speedup is not None
    assert two.efficiency is not None
    assert two.speedup.value == pytest.approx(0.8)
    assert two.speedup.ci95 == pytest.approx((0.8, 0.8))
    assert two.efficiency.value == pytest.approx(0.4)
    assert two.lost_time is not None
    assert two.lost_time.split is not None
    assert two.lost_time.lost_s == pytest.approx(0.75)
    split = two.lost_time.split
    assert (split.communication_s, split.compute_s, split.rest_s) == pytest.approx((0.6, 0.1, 0.05))
    assert split.cause == "communication"
    assert explain(two, "en") == (
        "efficiency 40%: communication: 600 ms of 750 ms lost per step is exposed all-reduce of 100.0 MiB at 0.21 GB/s"
    )
    assert "通信" in explain(two, "zh")


def test_slower_compute_is_told_from_communication(rows: Rows) -> None:
    rows.add(1, 0.5).add(2, 1.0, exposed_s=0.1, compute_s=0.9)
    two = rows.studies()[0].cases[1]
    assert two.lost_time is not None
    assert two.lost_time.split is not None
    assert two.lost_time.split.cause == "compute"
    assert "400 ms of 500 ms" in explain(two, "en")
    assert "900 ms instead of 500 ms" in explain(two, "en")


def test_neither(rows: Rows) -> None:
    rows.add(1, 0.5).add(2, 1.0, exposed_s=0.1, compute_s=0.5)
    two = rows.studies()[0].cases[1]
    assert explain(two, "en").startswith("efficiency 50%: neither communication nor slower compute: 400 ms of 500 ms")


def test_a_base_of_two_devices_has_its_own_exchange(rows: Rows) -> None:
    """Lost 0.5 s: exchange 0.5 - 0.1, computing 0.5 - 0.4."""
    rows.add(2, 0.5, exposed_s=0.1, compute_s=0.4).add(4, 1.0, exposed_s=0.5, compute_s=0.5)
    four = rows.studies()[0].cases[1]
    assert four.lost_time is not None
    assert four.lost_time.split is not None
    split = four.lost_time.split
    assert (split.communication_s, split.compute_s, split.rest_s) == pytest.approx((0.4, 0.1, 0.0))


def test_an_unknown_cause_is_said(rows: Rows) -> None:
    rows.add(1, 0.5).add(2, 1.0)
    assert explain(rows.studies()[0].cases[1], "en").startswith("efficiency 50%: unknown cause")


def test_good_efficiency_needs_no_cause(rows: Rows) -> None:
    rows.add(1, 0.5).add(2, 0.51, exposed_s=0.01, compute_s=0.5)
    assert rows.studies()[0].cases[1].lost_time is None


def test_strong_scaling_keeps_the_global_batch(rows: Rows) -> None:
    """16 on 1: 1 s. 8 each on 2: ideal 0.5 s, takes 0.8 s: 1.25 times faster, 62.5%; lost 0.3 s, 0.2 of it exchange."""
    rows.add(1, 1.0, batch=16).add(2, 0.8, batch=8, exposed_s=0.2, compute_s=0.6)
    (study,) = rows.studies()
    assert (study.mode, study.batch_size) == ("strong", 16)
    two = study.cases[1]
    assert two.speedup is not None
    assert two.efficiency is not None
    assert (two.speedup.value, two.efficiency.value) == pytest.approx((1.25, 0.625))
    assert two.lost_time is not None
    assert two.lost_time.lost_s == pytest.approx(0.3)
    assert two.lost_time.split is not None
    assert two.lost_time.split.communication_s == pytest.approx(0.2)
    assert two.lost_time.split.compute_s == pytest.approx(0.1)
    assert "global batch 16" in console_text((study,))


def test_every_missing_count_has_its_reason(rows: Rows) -> None:
    rows.add(1, 0.5).add(2, 0.5).add(4, 0.5, outcome="oom", reason="out of memory; use a smaller --batch-size")
    plan = (asked(1), asked(2), asked(4), asked(8, why=too_few_cores(wanted=8, available=4)), asked(4, nodes=2))
    (study,) = rows.studies(plan)
    assert [case.count for case in study.cases] == [(1, 1), (1, 2), (1, 4), (2, 4), (1, 8)]
    assert [explain(case, "en") for case in study.cases] == [
        "",
        "",
        "missing: oom: out of memory; use a smaller --batch-size",
        "missing: not run",
        "missing: skipped: 8 devices requested, 4 CPU cores available; use --devices 4 or fewer",
    ]
    text = console_text((study,))
    assert text.count("missing") == 3
    assert "images/s" not in text, "the table of results has the throughputs"
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_count_that_a_sibling_has_is_missing(rows: Rows) -> None:
    rows.add(1, 0.5).add(2, 0.5).add(4, 0.5)
    rows.add(1, 0.4, precision="bf16").add(2, 0.4, precision="bf16")
    rows.add(1, 0.3, batch=32)  # one count alone is no study
    fp32, bf16 = rows.studies()
    assert [case.missing for case in fp32.cases] == [None] * 3
    assert [case.count for case in bf16.cases if case.missing] == [(1, 4)]


def test_the_same_count_on_more_nodes_is_compared_with_the_base(rows: Rows) -> None:
    rows.add(2, 1.0, nodes=2, exposed_s=0.5, compute_s=0.5).add(2, 0.5, exposed_s=0.0, compute_s=0.5)
    (study,) = rows.studies()
    assert study.baseline.count == (1, 2)
    spread = study.cases[1]
    assert spread.efficiency is not None
    assert spread.efficiency.value == pytest.approx(0.5)
    assert spread.lost_time is not None
    assert spread.lost_time.split is not None
    assert spread.lost_time.split.cause == "communication"


def test_what_differs_by_more_than_devices_is_no_study(rows: Rows) -> None:
    rows.add(1, 0.5).add(2, 0.5, precision="bf16").add(4, 0.5, recipe="fast").add(8, 0.5, size="full")
    assert rows.studies() == ()


def test_the_study_and_the_table_divide_by_the_same(rows: Rows) -> None:
    rows.add(4, 0.9).add(2, 0.7).add(2, 0.6, nodes=2).add(1, 0.5)
    lines = build_lines(rows.rows)
    (study,) = build_studies(lines)
    of_study = {case.count: case.speedup for case in study.cases}
    assert {(line.first.nodes, line.first.devices): line.speedup for line in lines} == of_study


def test_json_and_markdown(rows: Rows) -> None:
    rows.add(1, 0.5).add(2, 1.25, exposed_s=0.6, compute_s=0.6).add(4, 0.5, outcome="oom", reason="a | b")
    (study,) = describe_studies(rows.studies())
    assert (study["mode"], study["batch_size_per_device"], study["base"]) == ("weak", 4, {"nodes": 1, "devices": 1})
    one, two, four = study["lines"]
    assert one["speedup"] is None
    assert two["throughput"]["value"] == pytest.approx(6.4)
    assert two["efficiency"]["value"] == pytest.approx(0.4)
    assert two["cause"] == "communication"
    assert two["lost_to"]["communication_s"] == pytest.approx(0.6)
    assert four["missing"] == {"why": "failed", "detail": "oom: a | b"}
    markdown = markdown_of(build_lines(rows.rows), lang="en")
    assert "#### weak scaling: resnet50 (small) reference fp32, CPU, batch/device 4, synthetic" in markdown
    assert "| 1 × 4 | missing | – | – | – | missing: oom: a \\| b |" in markdown
    assert "### 扩展性" in markdown_of(build_lines(rows.rows), lang="zh")


@pytest.mark.parametrize(("unit", "source", "is_known"), [
    ("tokens", "a.log", False), ("steps", "a.log", False), ("sequences", "a.log", True), ("tokens", "trainmark", True),
])  # fmt: skip
def test_a_step_is_as_long_as_its_batch_only_in_the_unit_of_the_batch(
    rows: Rows, unit: str, source: str, is_known: bool
) -> None:
    rows.add(1, 0.5).add(2, 1.0)
    rows.rows = [replace(row, unit=unit, source=source) for row in rows.rows]
    lost_time = rows.studies()[0].cases[1].lost_time
    assert lost_time is not None
    assert (lost_time.lost_s is not None) == is_known


OLD, NEW = {"framework": "torch 2.0", "hostname": "a"}, {"framework": "torch 2.5", "hostname": "a"}
HOPPER, VOLTA = {"cpu": "EPYC", "device_name": "H100"}, {"cpu": "Xeon", "device_name": "V100"}


def efficiencies(study: Study) -> list[tuple[int, float | None, bool]]:
    return [
        (case.devices, round(case.efficiency.value, 3) if case.efficiency else None, case.has_other_baseline)
        for case in study.cases
    ]


def test_each_software_has_its_own_base(rows: Rows) -> None:
    """Twice as fast with the new version; 80% efficiency on two devices with either."""
    rows.add(1, 0.4, env=OLD).add(2, 0.5, env=OLD).add(1, 0.2, env=NEW).add(2, 0.25, env=NEW)
    (study,) = rows.studies()
    assert efficiencies(study) == [(1, None, False), (1, None, False), (2, 0.8, False), (2, 0.8, False)]
    assert [line.efficiency and round(line.efficiency.value, 3) for line in build_lines(rows.rows)] == [
        None, 0.8, None, 0.8,
    ]  # fmt: skip
    told = console_text((study,), width=120)
    assert told.count("(base: 1 × 1)") == 1
    assert [f"1 × 2 @ {name}: efficiency 80%" in told for name in ("torch 2.0", "torch 2.5")] == [True, True]
    assert [case["base"] and case["base"]["runs"] for case in describe_studies((study,))[0]["lines"]] == [
        None, None, ["r0"], ["r2"],
    ]  # fmt: skip


def test_a_base_of_other_software_is_marked(rows: Rows) -> None:
    """The latest line with the fewest devices, and only if there is nothing nearer."""
    rows.add(1, 0.4, env=OLD).add(2, 0.5, env=NEW)
    (study,) = rows.studies()
    assert efficiencies(study) == [(1, None, False), (2, 0.8, True)]
    why = "* compared with another environment: torch 2.0, not torch 2.5"
    assert explain(study.cases[1], "en").startswith(why)
    assert why in console_text((study,), width=120)
    assert describe_studies((study,))[0]["lines"][1]["base"]["same_environment"] is False
    markdown = markdown_of(build_lines(rows.rows), lang="en")
    assert "80.0%\\*" in markdown
    assert "\\* baseline of another environment (software, host)" in markdown
    rows.add(4, 0.5, env=NEW)
    (study,) = rows.studies()
    assert efficiencies(study) == [(1, None, False), (2, None, False), (4, 1.0, False)]


def test_the_host_may_be_another_on_more_nodes_only(rows: Rows) -> None:
    here, there = {**NEW, "num_cores": 8}, {**NEW, "hostname": "b", "num_cores": 4}
    rows.add(1, 0.4, env=here).add(2, 0.5, env=there, nodes=2).add(1, 0.3, env=there).add(2, 0.3, env=there)
    (study,) = rows.studies()
    found = {(case.nodes, case.devices, case.line and case.line.first.id): case for case in study.cases}
    of_own_host, of_two_nodes = found[1, 2, "r3"], found[2, 2, "r1"]
    assert [case.baseline and case.baseline.first.id for case in (of_own_host, of_two_nodes)] == ["r2", "r2"]
    assert not any(case.has_other_baseline for case in study.cases)
    one_here, two_nodes, _, two_there = rows.rows
    (study,) = build_studies(build_lines([one_here, two_there]))
    assert efficiencies(study) == [(1, None, False), (2, 1.333, True)]
    (study,) = build_studies(build_lines([one_here, two_nodes]))
    assert efficiencies(study) == [(1, None, False), (2, 0.8, False)]


def test_a_failure_belongs_to_its_own_machine(rows: Rows) -> None:
    """A run that failed before it saw an accelerator may belong to either machine."""
    for env in (HOPPER, VOLTA):
        rows.add(1, 0.5, env=env, device="cuda").add(2, 0.5, env=env, device="cuda")
    rows.add(8, 0.5, env=VOLTA, device="cuda", outcome="oom", reason="too much")
    rows.add(4, 0.5, env={"cpu": "EPYC"}, device="cuda", outcome="failed", reason="no driver")
    hopper, volta = rows.studies()
    assert [case.count for case in hopper.cases if case.missing] == [(1, 4)]
    assert [case.count for case in volta.cases if case.missing] == [(1, 4), (1, 8)]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_failure_stays_so_where_another_machine_did_better(rows: Rows, is_first: bool) -> None:
    for env in (HOPPER, VOLTA) if is_first else (VOLTA, HOPPER):
        how = {"outcome": "oom", "reason": "too much"} if env is HOPPER else {}
        rows.add(1, 0.5, env=env, device="cuda").add(2, 0.5, env=env, device="cuda").add(
            8, 0.5, env=env, device="cuda", **how
        )
    missing = {study.first.machine: [case.count for case in study.cases if case.missing] for study in rows.studies()}
    assert missing == {"H100": [(1, 8)], "V100": []}


def test_what_was_asked_for_elsewhere_is_not_missing_here(rows: Rows) -> None:
    for env in (HOPPER, VOLTA):
        rows.add(1, 0.5, env=env, device="cuda").add(2, 0.5, env=env, device="cuda")
    elsewhere = replace(asked(8, why=too_few_cores(wanted=8, available=4)), device="cuda", machine="V100")
    hopper, volta = rows.studies((elsewhere,))
    assert ([case.devices for case in hopper.cases], [case.devices for case in volta.cases]) == ([1, 2], [1, 2, 8])
