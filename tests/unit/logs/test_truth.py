"""All the real logs: facts, records, medians, and published values reproduced by a named protocol."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from truth import DIFFERENT, LOGS, PROTOCOLS, entry_for, expected, needs_logs, read_truth

from trainmark.analyse.protocols import apply_protocol
from trainmark.logs.importing import Task, import_file
from trainmark.logs.record import Facts
from trainmark.report.document import describe_runs
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow
from trainmark.workloads.registry import load_cards

TRUTH = read_truth()
pytestmark = needs_logs()


def as_id(row: dict[str, Any]) -> str:
    return str(row["file"]).replace("/", "-")[-60:]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunRow]:
    store = tmp_path_factory.mktemp("store")
    firsts = {name: card.targets[0] for name, card in load_cards().items()}
    targets = {name: {"metric": target.metric, "value": target.value} for name, target in firsts.items()}
    found = {}
    for row in TRUTH:
        task = Task(path=LOGS / row["file"], store=store, given=Facts(), pattern=None, targets=targets)
        result = import_file(task)
        assert result.run_id is not None, result
        run = read_run(store / result.run_id)
        assert run is not None
        found[row["file"]] = run
    return found


def compare(row: dict[str, Any], run: RunRow) -> list[str]:
    ours = describe_runs([run])[0]
    ours["batch_per_device"] = ours["batch_size_per_device"]
    found = []
    for name, wanted in expected(row).items():
        if name in ("records", "median", "last") and wanted is None:
            continue
        if name in ("median", "last"):
            same = ours[name] is not None and math.isclose(ours[name], wanted, rel_tol=1e-3)
        else:
            same = ours[name] == wanted
        if not same:
            found.append(name)
    return found


@pytest.mark.parametrize("row", TRUTH, ids=as_id)
def test_facts_records_and_rates_are_as_known(row: dict[str, Any], rows: dict[str, RunRow]) -> None:
    """Exactly the fields that the docs list differ, so neither a new difference nor a mended one goes unseen."""
    assert tuple(compare(row, rows[row["file"]])) == (entry_for(DIFFERENT, row["file"]) or ())


@pytest.mark.parametrize("row", [row for row in TRUTH if entry_for(PROTOCOLS, row["file"])], ids=as_id)
def test_published_values_are_reproduced_by_a_named_protocol(row: dict[str, Any], rows: dict[str, RunRow]) -> None:
    protocol = entry_for(PROTOCOLS, row["file"])
    value = apply_protocol(protocol, rows[row["file"]])["value"]
    decimals = len(str(row["stated"]).partition(".")[2])
    unit = 10**-decimals
    # Some authors round, some cut: both are the printed precision.
    assert row["stated"] in (round(value, decimals), round(math.floor(value / unit) * unit, decimals)), value


def test_every_exact_rule_has_a_protocol() -> None:
    exact = [row["file"] for row in TRUTH if "EXACT" in row["rule"] and "Time2Train 82322" not in row["rule"]]
    assert [file for file in exact if entry_for(PROTOCOLS, file) is None] == []


def test_the_hrnet_run_to_its_target(rows: dict[str, RunRow]) -> None:
    file = next(row["file"] for row in TRUTH if "82322" in row["rule"])
    run = rows[file]
    evals = [e for e in run.evals if e["metric"] == "eval_accuracy"]
    assert run.wall_s == pytest.approx(82322.66)
    assert round(evals[-1]["value"], 1) == 79.3
    assert evals[-1]["time_s"] == pytest.approx(82320.86, abs=0.05)
    assert run.log["stated"]["avg_ips"]["value"] == 76.19


def test_reading_in_any_pieces_gives_the_same(rows: dict[str, RunRow]) -> None:
    from trainmark.logs.registry import load_dialects
    from trainmark.logs.stream import LogStream

    for file in ("PaddlePaddle__Perf/CtrDnn/logs/CtrDnn_DataLoader_16Thread_4Node", *(r["file"] for r in TRUTH[31:35])):
        data = Path(LOGS / file).read_bytes()
        whole = LogStream(load_dialects())
        first = whole.feed(data) + whole.close()
        assert whole.dialect is not None
        pieces = LogStream((whole.dialect,))  # a piece may have only lines that a weaker dialect knows
        second = [record for start in range(0, len(data), 997) for record in pieces.feed(data[start : start + 997])]
        second += pieces.close()
        assert first == second
        assert whole.facts == pieces.facts
