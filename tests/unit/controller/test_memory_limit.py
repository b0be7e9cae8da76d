from __future__ import annotations

import pytest

from trainmark.controller.workload import memory_limit_bytes
from trainmark.errors import InputError


def test_the_limit_is_read_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINMARK_MEMORY_LIMIT", raising=False)
    assert memory_limit_bytes() is None
    monkeypatch.setenv("TRAINMARK_MEMORY_LIMIT", "2GB")
    assert memory_limit_bytes() == 2_000_000_000
    for wrong in ("much", "0", "-3GB"):
        monkeypatch.setenv("TRAINMARK_MEMORY_LIMIT", wrong)
        with pytest.raises(InputError, match="must be a number of bytes > 0"):
            memory_limit_bytes()
