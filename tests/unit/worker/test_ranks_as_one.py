"""Two real processes: what one of them meets, both know."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import nn
from two_ranks import on_two_ranks

from making import make_cell, make_images, make_workload_cell
from trainmark.spec.cell import DataSource
from trainmark.worker.sanity import LossTrend
from trainmark.worker.torch import engine
from trainmark.worker.torch.engine import TorchEngine
from trainmark.worker.torch.ranks import TorchRanks
from trainmark.worker.torch.step import Precision


def write_slowly(rank: int, control: Any, path: Path) -> bool:
    def write() -> None:
        assert rank == 0
        time.sleep(0.5)
        path.write_text("whole")

    TorchRanks(control).run_on_first(write)
    return path.exists()


def test_nobody_leaves_before_rank_0_has_written(tmp_path: Path) -> None:
    assert on_two_ranks(tmp_path, write_slowly, tmp_path / "checkpoint") == [True, True]


def write_in_vain(_: int, control: Any) -> str:
    def write() -> None:
        raise OSError("the checkpoint could not be written: No space left on device")

    try:
        TorchRanks(control).run_on_first(write)
    except OSError as error:
        return str(error)
    return "went on"


def test_what_rank_0_cannot_write_fails_on_all_ranks(tmp_path: Path) -> None:
    assert on_two_ranks(tmp_path, write_in_vain) == ["the checkpoint could not be written: No space left on device"] * 2


def evaluate_own_statistics(rank: int, control: Any) -> tuple[float, dict[str, float]]:
    """The engine's evaluation of a model whose score is its running mean, which the ranks do not share."""
    engine: Any = object.__new__(TorchEngine)
    engine.rank, engine.world_size, engine._ranks = rank, 2, TorchRanks(control)
    engine.model = nn.BatchNorm1d(1)
    engine.model.running_mean.fill_(1.0 + rank)
    engine._precision = Precision.of("fp32", "cpu")
    engine._feed = SimpleNamespace(can_evaluate=True, eval_batches=lambda: iter([None]), truth=None)
    engine._workload = SimpleNamespace(score=lambda model, _: model.running_mean.clone())
    engine._metric = SimpleNamespace(summarise=lambda total, _: {"sum": float(total.sum())})
    batches: list[int] = []
    metrics = engine.evaluate(lambda: batches.append(1))
    assert batches == [1]
    return engine.model.running_mean.item(), metrics


def test_all_ranks_evaluate_the_model_that_the_checkpoint_holds(tmp_path: Path) -> None:
    assert on_two_ranks(tmp_path, evaluate_own_statistics) == [(1.0, {"sum": 2.0})] * 2


def gather_own(rank: int, control: Any) -> list[Any]:
    engine: Any = object.__new__(TorchEngine)
    engine._ranks = TorchRanks(control)
    parts: list[Any] = engine.gather(LossTrend.of([2.0, 1.0] * 10) if rank else None)
    return parts


def test_every_rank_has_what_each_rank_has(tmp_path: Path) -> None:
    assert on_two_ranks(tmp_path, gather_own) == [[None, LossTrend.of([2.0, 1.0] * 10)]] * 2


def build_on_own_data(rank: int, control: Any, roots: list[Path]) -> str:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    engine.join_processes = lambda _: TorchRanks(control)
    cell = make_cell(devices_per_node=2, batch_size_per_device=1, data=DataSource.parse(str(roots[rank])))
    try:
        TorchEngine(make_workload_cell(**vars(cell)))
    except ValueError as error:
        return str(error)
    return "went on"


def test_ranks_with_different_copies_of_the_data_fail_alike(tmp_path: Path) -> None:
    roots = [make_images(tmp_path / "whole", per_class=4), make_images(tmp_path / "partial", per_class=3)]
    ranks = [f"(rank {rank} on {os.uname().nodename})" for rank in range(2)]
    expected = (
        f"the ranks see different data: training samples 8 {ranks[0]}, 6 {ranks[1]}; "
        f"validation samples 8 {ranks[0]}, 6 {ranks[1]}; steps per epoch 4 {ranks[0]}, 3 {ranks[1]}; "
        "make the copies of the data set the same (trainmark data check)"
    )
    assert on_two_ranks(tmp_path, build_on_own_data, roots) == [expected] * 2
