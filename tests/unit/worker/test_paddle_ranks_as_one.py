"""Two real processes of Paddle over gloo: they evaluate one model."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

paddle = pytest.importorskip("paddle")

from trainmark.worker.paddle.engine import PaddleEngine  # noqa: E402
from trainmark.worker.paddle.ranks import join_processes  # noqa: E402
from trainmark.worker.paddle.step import Precision  # noqa: E402
from trainmark.workloads.paddle_layers import BatchNorm2D  # noqa: E402


def free_ports(number: int) -> list[int]:
    probes = [socket.socket() for _ in range(number)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def evaluate_own_statistics(rank: int, ports: Sequence[int]) -> tuple[float, float, dict[str, float]]:
    """The engine's evaluation of a model whose score is its statistics, which the ranks do not share."""
    master, *endpoints = (f"127.0.0.1:{port}" for port in ports)
    os.environ |= {
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_DISTRI_BACKEND": "gloo",
        "PADDLE_MASTER": master,
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
    }
    paddle.set_device("cpu")
    engine: Any = object.__new__(PaddleEngine)
    engine.rank, engine.world_size, engine._ranks = rank, 2, join_processes("cpu")
    engine.model = paddle.nn.Sequential(BatchNorm2D(1))
    norm = engine.model[0]
    norm._mean.fill_(1.0 + rank)
    norm._variance.fill_(3.0 + rank)
    engine._precision = Precision(name="fp32", device_type="cpu")
    engine._feed = SimpleNamespace(can_evaluate=True, eval_batches=lambda: iter([None]), truth=None)
    engine._workload = SimpleNamespace(score=lambda *_: norm._mean + norm._variance)
    engine._metric = SimpleNamespace(summarise=lambda total, _: {"sum": float(total.sum())})
    metrics = engine.evaluate(lambda: None)
    found = norm._mean.item(), norm._variance.item(), metrics
    engine._ranks.close()
    return found


def test_all_ranks_evaluate_the_model_that_the_checkpoint_holds() -> None:
    ports = free_ports(3)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(evaluate_own_statistics, rank, ports) for rank in range(2)]
        found = [part.result(timeout=120) for part in parts]
    assert found == [(1.0, 3.0, {"sum": 8.0})] * 2
