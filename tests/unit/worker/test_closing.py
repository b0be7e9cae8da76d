"""The order in which an engine ends: graphs with collectives first, then the group of processes."""

from __future__ import annotations

from typing import Any

import pytest

from making import make_workload_cell
from trainmark.worker.torch.engine import TorchEngine
from trainmark.worker.torch.step import _Captured


def test_captured_graphs_end_before_the_group_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL waits for every graph that uses the group: with a living one, closing would never end."""
    engine = TorchEngine(make_workload_cell(batch_size_per_device=1))
    seen: list[str] = []

    class Graph:
        def reset(self) -> None:
            seen.append("reset")

    graph: Any = Graph()
    for shape in ((1,), (2,)):
        captured = _Captured(graph=graph, static=None, source=None, loss=engine._train_step.loss)
        engine._train_step._captures[(shape,)] = captured
    monkeypatch.setattr(engine, "wait", lambda: seen.append("wait"))
    monkeypatch.setattr(engine._ranks, "close", lambda: seen.append("group"))
    engine.close()
    assert seen == ["wait", "reset", "reset", "group"]
    assert not engine._train_step._captures
