from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _jax_only_where_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that starts JAX without the mark would make forks of the tests after it dangerous."""

    def has_started() -> bool:
        return bool(getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None))

    had_started = has_started()
    yield
    if request.node.get_closest_marker("jax") is None:
        assert had_started or not has_started(), "mark it with pytest.mark.jax, or use JAX in a process of its own"


@pytest.fixture(autouse=True)
def _plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("TRAINMARK_DB", raising=False)
