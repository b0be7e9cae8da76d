"""The share of a GPU's memory that JAX may take. No GPU and no JAX is needed."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from making import make_workload_cell
from trainmark.worker import jax
from trainmark.worker.jax import build_engine, limit_memory

OLD, NEW = "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (OLD, NEW):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    fake = SimpleNamespace(JaxEngine=lambda _: None)
    monkeypatch.setitem(sys.modules, "trainmark.worker.jax.engine", fake)
    gpu = SimpleNamespace(memory_bytes=100 << 30)
    monkeypatch.setattr(jax, "read_gpus", lambda: ([gpu], None))


def shares(device: str, **variables: str) -> dict[str, str]:
    os.environ.update(variables)
    build_engine(make_workload_cell(framework="jax", device=device))
    return {name: os.environ[name] for name in (OLD, NEW) if name in os.environ}


def test_nearly_all_of_a_gpu_and_nothing_of_a_cpu() -> None:
    assert shares("cpu") == {}
    assert shares("cuda") == {OLD: "0.95"}


@pytest.mark.parametrize("name", [OLD, NEW])
def test_what_the_user_set_is_kept(name: str) -> None:
    assert shares("cuda", **{name: "0.5"}) == {name: "0.5"}, "and JAX refuses both names together"


@pytest.mark.parametrize("given", [{}, {NEW: "0.5"}])
def test_a_memory_limit_comes_first(given: dict[str, str]) -> None:
    os.environ.update(given)
    limit_memory("cuda", 25 << 30)
    assert shares("cuda") == {(NEW if given else OLD): "0.2500"}
