from __future__ import annotations

import pytest

from trainmark.controller.memory_limit import memory_limit
from trainmark.errors import InputError


def test_the_limit_is_read_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINMARK_MEMORY_LIMIT", raising=False)
    assert memory_limit() == {}
    monkeypatch.setenv("TRAINMARK_MEMORY_LIMIT", "2GB")
    assert memory_limit() == {"memory_limit_bytes": 2_000_000_000}
    for wrong in ("much", "0", "-3GB"):
        monkeypatch.setenv("TRAINMARK_MEMORY_LIMIT", wrong)
        with pytest.raises(InputError, match="no number of bytes"):
            memory_limit()
