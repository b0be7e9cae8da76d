"""A store of commit 7cd78e8 (folders and index) gives the numbers, outcomes and warning codes that it gave there."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from old_store import EXPECTED, unpack
from trainmark.cli.main import main

_WORDING = ("message", "reason")
"""Sentences may be written better; codes, outcomes and numbers may not change."""

_TOO_NOISY = (
    ".scaling[0].lines[0].throughput.value",
    "[13].throughput",
    ".scaling[0].lines[1].speedup",
    ".scaling[0].lines[1].efficiency",
    "[14].speed-up",
    "[14].speed-up_base_devices",
    "[14].speed-up_same_environment",
)
"""A speed of ±782% and the ratios to it: too noisy to be a number, so that there is none now."""


def differences(before: Any, now: Any, where: str = "") -> list[str]:
    """What `before` holds and `now` does not; keys that were added are no difference."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = [key for key in before if key not in _WORDING]
        absent = [f"{where}.{key} is gone" for key in keys if key not in now]
        return absent + [
            found for key in keys if key in now for found in differences(before[key], now[key], f"{where}.{key}")
        ]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [found for n, (old, new) in pairs for found in differences(old, new, f"{where}[{n}]")]
    if where in _TOO_NOISY and now is None:
        return []
    return [] if _is_same(before, now) else [f"{where}: {before!r} became {now!r}"]


def _is_same(before: Any, now: Any) -> bool:
    """Numbers to nine digits: the last ones depend on the processor, whose instructions add up in another order."""
    if type(before) is not type(now):
        return False
    try:
        return bool(before == now) or (not isinstance(before, bool) and math.isclose(float(before), float(now)))
    except (TypeError, ValueError):
        return False


@pytest.fixture(scope="module", params=["with its index", "without an index"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = unpack(tmp_path_factory.mktemp("old"))
    if request.param == "without an index":
        (root / "index.sqlite").unlink()
    return root


def export(store: Path, name: str, tmp_path: Path) -> str:
    path = tmp_path / "exported"
    assert main(["export", "--format", name, "--store", str(store), "--output", str(path)]) == 0
    return path.read_text()


def test_json(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--json", "--store", str(store)]) == 0
    now, before = json.loads(capsys.readouterr().out), json.loads((EXPECTED / "show.json").read_text())
    assert len(before["results"]) > 30
    assert (before.pop("schema"), now["schema"]) == (1, 2)  # which has all fields of 1
    assert differences(before, now) == []


def test_csv(store: Path, tmp_path: Path) -> None:
    before, now = (
        list(csv.DictReader(io.StringIO(text, newline="")))
        for text in ((EXPECTED / "export.csv").read_text(), export(store, "csv", tmp_path))
    )
    assert differences(before, now) == []


@pytest.mark.parametrize("name", ["dlperf", "mllog", "paddle-benchmark"])
def test_exports(store: Path, name: str, tmp_path: Path) -> None:
    assert export(store, name, tmp_path) == (EXPECTED / f"{name}.txt").read_text()


def test_ai_rank(store: Path, tmp_path: Path) -> None:
    assert main(["export", "--format", "ai-rank", "--store", str(store), "--output", f"{tmp_path}/"]) == 0
    now = json.loads((tmp_path / "summary_metrics.json").read_text())
    assert differences(json.loads((EXPECTED / "ai-rank-summary.json").read_text()), now) == []


def test_a_difference_is_seen() -> None:
    """The comparison itself: it must not pass whatever it is given."""
    before = json.loads((EXPECTED / "show.json").read_text())
    now = json.loads((EXPECTED / "show.json").read_text())
    now["results"][0]["throughput"]["value"] *= 1 + 1e-8
    del now["results"][1]["median"]
    now["results"][2]["reason"] = "other words"
    assert len(differences(before, now)) == 2
