"""The processes of a run under Paddle, and all-reduce timed between them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import paddle
from paddle import distributed, nn

from trainmark.worker.ranks import Ranks, sample_exchange
from trainmark.workloads.paddle_layers import BatchNorm2D, SyncBatchNorm

T = TypeVar("T")


class PaddleRanks(Ranks):
    """Over gloo, on the host."""

    def __init__(self, group: Any) -> None:
        super().__init__(rank=distributed.get_rank(), world_size=distributed.get_world_size())
        self._group = group

    def maximum(self, values: Sequence[float]) -> list[float]:
        tensor = paddle.to_tensor(list(values), dtype=paddle.float64, place=paddle.CPUPlace())
        distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, group=self._group)
        largest: list[float] = tensor.tolist()
        return largest

    def gather(self, part: T) -> list[T]:
        parts: list[Any] = []
        distributed.all_gather_object(parts, part, group=self._group)
        return parts

    def close(self) -> None:
        distributed.destroy_process_group()


def join_processes(device_type: str) -> PaddleRanks:
    """Join the default group (gloo or NCCL), over which gradients go, and the one of the hosts over gloo."""
    distributed.init_parallel_env()
    return PaddleRanks(distributed.new_group(backend="gloo") if device_type == "cuda" else None)


def copy_statistics_of_first(model: nn.Layer) -> None:
    """Each rank keeps its own running statistics in training; a checkpoint holds those of rank 0.

    Paddle keeps them as parameters without a gradient, not as buffers.
    """
    for tensor in model.state_dict().values():
        if tensor.stop_gradient:
            distributed.broadcast(tensor, src=0)


def sync_batch_norms(model: nn.Layer, *, num_ranks: int) -> None:
    """Every BatchNorm with the statistics of all processes, in place."""
    for layer in model.sublayers(include_self=True):
        for name, child in layer.named_children():
            if isinstance(child, BatchNorm2D):
                setattr(layer, name, SyncBatchNorm(child, num_ranks=num_ranks))


def time_all_reduce(num_bytes: int, *, is_cuda: bool, ranks: Ranks, max_seconds: float) -> list[float]:
    """Seconds of one all-reduce of fp32, measured several times; the same on every rank."""
    buffer = paddle.zeros([max(1, num_bytes // 4)], dtype=paddle.float32)

    def run(num: int) -> float:
        begin = time.perf_counter()
        for _ in range(num):
            distributed.all_reduce(buffer)
        if is_cuda:
            paddle.device.synchronize()
        return ranks.slowest(time.perf_counter() - begin)

    return sample_exchange(run, max_seconds)
