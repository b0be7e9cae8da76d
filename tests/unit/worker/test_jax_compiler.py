"""Where compiled programs of JAX are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock, call

import pytest

jax = pytest.importorskip("jax")

from trainmark.cache_folder import CACHE_VARIABLE  # noqa: E402
from trainmark.worker.jax.compiler import keep_compiled  # noqa: E402
from trainmark.worker.jax.engine import JaxEngine  # noqa: E402

pytestmark = pytest.mark.jax
_SETTING = "jax_compilation_cache_dir"


@pytest.fixture
def _unset() -> Iterator[None]:
    before = jax.config.jax_compilation_cache_dir
    jax.config.update(_SETTING, None)
    yield
    jax.config.update(_SETTING, before)


@pytest.mark.usefixtures("_unset")
def test_programs_for_a_cpu_are_kept_for_each_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Machines that share a home directory may have other instructions."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr("platform.node", lambda: "a")
    keep_compiled("cpu")
    assert Path(jax.config.jax_compilation_cache_dir) == tmp_path / "jax" / "cpu-a"


@pytest.mark.usefixtures("_unset")
def test_a_folder_that_the_user_chose_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    keep_compiled("cuda")
    assert Path(jax.config.jax_compilation_cache_dir) == tmp_path / "jax"
    jax.config.update(_SETTING, "chosen")
    keep_compiled("cuda")
    assert jax.config.jax_compilation_cache_dir == "chosen"


def test_ranks_wait_until_all_have_compiled() -> None:
    """Rank 0 finds its program in the cache; its first exchange would fail after 30 s while rank 1 still compiles."""
    engine = Mock(world_size=2)
    JaxEngine._warm_up(engine)
    calls = [name for name, _, _ in engine.mock_calls]
    assert calls.index("_ranks.gather") > max(i for i, name in enumerate(calls) if name == "_train_step.compile")
    assert engine.mock_calls[-1] == call._feed.begin_epoch(0)
