"""Two real processes of Paddle: they evaluate one model, and wait for each other."""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

paddle = pytest.importorskip("paddle")

from trainmark.worker.paddle.engine import PaddleEngine  # noqa: E402
from trainmark.worker.paddle.ranks import join_processes, paddle_variables  # noqa: E402
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


def set_launcher(rank: int, ports: Sequence[int]) -> None:
    """As Paddle's launcher does."""
    master, *endpoints = (f"127.0.0.1:{port}" for port in ports)
    os.environ |= {
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_DISTRI_BACKEND": "gloo",
        "PADDLE_MASTER": master,
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
    }


def evaluate_own_statistics(rank: int, ports: Sequence[int]) -> tuple[float, float, dict[str, float]]:
    """The engine's evaluation of a model whose score is its statistics, which the ranks do not share."""
    set_launcher(rank, ports)
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


def wait_for_a_late_rank(rank: int, ports: Sequence[int]) -> list[int]:
    set_launcher(rank, ports)
    paddle.set_device("cpu")
    ranks = join_processes("cpu")
    ranks.run_on_first(lambda: time.sleep(31))
    found = ranks.gather(rank)
    ranks.close()
    return found


def in_two_processes(work: Callable[[int, Sequence[int]], Any]) -> list[Any]:
    ports = free_ports(3)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(work, rank, ports) for rank in range(2)]
        return [part.result(timeout=120) for part in parts]


def test_a_rank_may_be_later_than_gloo_waits() -> None:
    """Gloo's 30 s cannot be changed in Paddle; a metric of COCO or a slow disk take longer."""
    assert in_two_processes(wait_for_a_late_rank) == [[0, 1]] * 2


def test_a_build_for_gpus_trains_on_the_cpu_if_asked_to() -> None:
    by_launcher = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "n1", "MASTER_PORT": "15000"}
    own = {"PADDLE_TRAINER_ID": "0", "PADDLE_TRAINERS_NUM": "1", "PADDLE_MASTER": "cloud:1"}
    variables = paddle_variables("cpu", {**by_launcher, **own, "PADDLE_CURRENT_ENDPOINT": "cloud:2"})
    ranks = {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2", "PADDLE_MASTER": "n1:15000"}
    assert variables == {**ranks, "PADDLE_DISTRI_BACKEND": "gloo"}
    variables = paddle_variables("cuda", by_launcher)
    assert (variables["PADDLE_DISTRI_BACKEND"], variables["FLAGS_selected_gpus"]) == ("nccl", "1")
    assert "PADDLE_CURRENT_ENDPOINT" in variables


def test_all_ranks_evaluate_the_model_that_the_checkpoint_holds() -> None:
    found = in_two_processes(evaluate_own_statistics)
    assert found == [(1.0, 3.0, {"sum": 8.0})] * 2
