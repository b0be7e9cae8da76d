"""A log that claims to be larger than any disk: named with its size, neither read nor copied."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from making import make_run
from trainmark.cli.main import main

pytestmark = pytest.mark.timeout(120)


def test_a_sparse_log_is_neither_read_nor_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("small", "endless"):
        (make_run(tmp_path / "s", name, seconds=[0.1] * 20) / "output.log").write_text("hello\n")
    os.truncate(tmp_path / "s" / "endless" / "output.log", 1 << 40)
    words = ["report", "--store", str(tmp_path / "s"), "--format", "html", "--output", f"{tmp_path / 'out'}/"]
    assert main(words) == 0, capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out" / "logs").iterdir()] == ["small.log"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "1.0 TiB" in page
    assert "logs/endless.log" not in page
