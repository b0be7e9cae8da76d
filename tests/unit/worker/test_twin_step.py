"""A twin step under real DDP: it trains, and sends neither gradients nor buffers. One process is enough to count."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from trainmark.messages.scaling import one_process
from trainmark.worker.ranks import SingleRank, sample_exchange
from trainmark.worker.torch import network
from trainmark.worker.torch.ranks import time_all_reduce
from trainmark.worker.torch.step import Precision, TrainStep
from trainmark.workloads.card import Sgd
from trainmark.workloads.torch import ParameterGroup


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


class Counting:
    """A model whose exchanges are counted: of gradients by a hook of DDP, of buffers where DDP sends them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gradients = self.buffers = 0
        self.linear = nn.Linear(4, 4)
        self.model = DistributedDataParallel(
            nn.Sequential(self.linear, nn.BatchNorm1d(4)), gradient_as_bucket_view=True
        )
        self.model.register_comm_hook(None, lambda _, bucket: self._exchange(bucket))
        send = self.model._sync_buffers
        monkeypatch.setattr(self.model, "_sync_buffers", lambda: self._send(send))

    def _exchange(self, bucket: Any) -> torch.futures.Future[Tensor]:
        self.gradients += 1
        future: torch.futures.Future[Tensor] = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    def _send(self, send: Any) -> None:
        self.buffers += 1
        send()


def test_only_twins_exchange_nothing(group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch)
    workload: Any = SimpleNamespace(
        parameter_groups=lambda model: [ParameterGroup(params=list(model.parameters()), weight_decay=0.0)],
        compute_loss=lambda model, batch: model(batch).square().mean(),
    )
    step = TrainStep(
        model=counting.model, workload=workload, optimizer_facts=Sgd(momentum=0.9, weight_decay=0.0),
        precision=Precision.of("fp32", "cpu"),
    )  # fmt: skip
    step.set_learning_rate(0.1)
    assert step.why_no_twin() is None
    batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    sent = []
    for is_twin in (False, True, True, False, True, False):
        before = (counting.gradients, counting.buffers, counting.linear.weight.detach().clone())
        if is_twin:
            with step.without_exchange():
                step.run(batch)
        else:
            step.run(batch)
        sent.append((counting.gradients - before[0], counting.buffers - before[1]))
        assert not torch.equal(before[2], counting.linear.weight)
    assert sent == [(1, 1), (0, 0), (0, 0), (1, 1), (0, 0), (1, 1)]


def test_a_step_without_ddp_has_no_twin() -> None:
    workload: Any = SimpleNamespace(
        parameter_groups=lambda model: [ParameterGroup(params=list(model.parameters()), weight_decay=0.0)]
    )
    step = TrainStep(
        model=nn.Linear(2, 2), workload=workload, optimizer_facts=Sgd(momentum=0.9, weight_decay=0.0),
        precision=Precision.of("fp32", "cpu"),
    )  # fmt: skip
    assert step.why_no_twin() == one_process()


@pytest.mark.serial
def test_all_reduce_is_timed(group: None) -> None:
    begin_s = time.perf_counter()
    samples, spent_s = time_all_reduce(1 << 10, device=torch.device("cpu"), ranks=SingleRank(), max_seconds=0.5)
    took_s = time.perf_counter() - begin_s
    assert len(samples) == 7
    assert all(0 < sample < 1 for sample in samples)
    assert 0.8 * took_s < spent_s <= took_s, "short exchanges are repeated, and that counts"


@pytest.mark.serial
def test_the_network_is_not_measured_for_longer_than_allowed(group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A size takes 0.14 s of 20 ms each, though an exchange is over in microseconds."""
    asked: list[int] = []

    def take(num_bytes: int, **_: Any) -> tuple[list[float], float]:
        asked.append(num_bytes)
        return [1e-5] * 7, 0.14

    monkeypatch.setattr(network, "join_processes", lambda _: SingleRank())
    monkeypatch.setattr(network, "time_all_reduce", take)
    measured = network.measure_network(device="cpu", max_bytes=1 << 10, max_s=0.3)
    assert asked == [4, 16, 64]
    assert measured["left_out_bytes"] == [256, 1024]


@pytest.mark.parametrize(
    ("one_s", "calls", "samples"),
    [(0.001, [1, 1] + [20] * 7, 7), (0.3, [1, 1] + [1] * 2, 2), (5.0, [1, 1], 1)],
)
def test_long_exchanges_are_sampled_less(one_s: float, calls: list[int], samples: int) -> None:
    """Short ones are repeated to 20 ms; one that is longer than the time allowed is measured once, after a first."""
    asked: list[int] = []

    def run(num: int) -> float:
        asked.append(num)
        return num * one_s

    assert sample_exchange(run, 0.5) == pytest.approx([one_s] * samples)
    assert asked == calls
