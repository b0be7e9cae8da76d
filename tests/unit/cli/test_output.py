"""What is said on stderr."""

from __future__ import annotations

import sys

import pytest

from trainmark.cli.output import talk


class Writes:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, text: str) -> None:
        self.texts.append(text)

    def flush(self) -> None:
        pass


def test_a_line_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """`parity` talks from several threads: with the end of the line apart, two lines ran together."""
    writes = Writes()
    monkeypatch.setattr(sys, "stderr", writes)
    talk("torch: fp64, 8 steps")
    assert writes.texts == ["torch: fp64, 8 steps\n"]
