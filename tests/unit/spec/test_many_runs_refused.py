"""A plan of a million runs is refused before it is made."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from trainmark.cli.main import main


@pytest.mark.parametrize("words", [["plan", "resnet50"], ["run", "resnet50"], ["run", "--", "true"]])
def test_a_million_runs_are_refused_at_once(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = time.process_time()
    cut = words.index("--") if "--" in words else len(words)
    asked = [*words[:cut], "--repeat", "1000000", "--store", str(tmp_path / "s"), *words[cut:]]
    assert main(asked) == 2
    assert "asks for 1,000,000 runs, at most 10,000 are possible" in capsys.readouterr().err
    assert time.process_time() - begin < 60, "172 s were spent on listing them"
    assert not (tmp_path / "s").exists()
