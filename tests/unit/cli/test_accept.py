"""`trainmark accept`: a run that breaks a law is admitted with a written reason, which stays visible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from making import make_cell, make_run
from schema_checking import check_document
from trainmark.cli.main import main


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two devices are five times as fast as one."""
    root = tmp_path / "runs"
    make_run(root, "a-base", seconds=[0.1] * 50)
    make_run(root, "b-fast", cell=make_cell(devices_per_node=2), seconds=[0.04] * 50)
    return root


def show(store: Path, run_id: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["show", run_id, "--json", "--store", str(store)]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    return dict(result)


def test_accept_and_withdraw(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = show(store, "b-fast", capsys)
    assert [mark["law"] for mark in before["marks"]] == ["superlinear"], "also where the base is not shown"
    assert not before["admitted"]
    assert main(["accept", "b-fast", "--law", "superlinear", "--because", "缓存放得下", "--store", str(store)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "superlinear: accepted for 1 run: b-fast" in err
    assert "next: trainmark show --store" in err
    after = show(store, "b-fast", capsys)
    assert after["admitted"]
    assert after["marks"][0]["accepted"]["because"] == "缓存放得下"
    assert after["warnings"] == before["warnings"], "nothing is hidden, and no seal is broken"
    for words in (["show"], ["report"], ["report", "--lang", "zh"], ["export", "--format", "csv"]):
        assert main([*words, "--store", str(store)]) == 0
        assert "缓存放得下" in capsys.readouterr().out
    assert main(["accept", "b-fast", "--law", "superlinear", "--withdraw", "--store", str(store), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check_document("accept", document)
    (withdrawn,) = document["results"]
    assert not withdrawn["admitted"]


def test_a_new_index_knows_it(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["accept", "b-fast", "--law", "superlinear", "--because", "it fits into the cache", "--store", str(store)]
    assert main(words) == 0
    (store / "index.sqlite").unlink()
    assert show(store, "b-fast", capsys)["admitted"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("b-fast --law superlinea --because because", "unknown law 'superlinea'\n  hint: did you mean superlinear?"),
        ("b-fast --law superlinear --because ok", "--because: must say why the result is right"),
        ("a-base --law superlinear --because because", "a-base does not break superlinear\n  hint: it breaks no law"),
        ("b-fast --law far-repeat --because because", "does not break far-repeat\n  hint: it breaks superlinear"),
        ("b-fast --law superlinear --withdraw", "superlinear was not accepted for b-fast\n  hint: accepted: none"),
        ("b-fast --law superlinear", "one of the arguments --because --withdraw is required"),
        ("zzz --law superlinear --because because", "begins with 'zzz'"),
    ],
)
def test_what_cannot_be_accepted(words: str, says: str, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["accept", *words.split(), "--store", str(store)]) == 2
    assert says in capsys.readouterr().err
    assert not list(store.glob("*/accepted.json"))


def test_a_hostile_file_accepts_nothing(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("[1]", '{"accepted": {"law": 1}}', '{"accepted": [{"law": "superlinear", "because": " "}, 7, null]}'):
        (store / "b-fast" / "accepted.json").write_text(text)
        assert main(["show", "--reindex", "--store", str(store)]) == 0
        capsys.readouterr()
        assert not show(store, "b-fast", capsys)["admitted"]
