"""The processes of a run under PyTorch, and all-reduce timed between them, for steps and for `doctor --network`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import distributed, nn

from trainmark import host
from trainmark.worker.ranks import Ranks, sample_exchange
from trainmark.worker.torch import loopback

T = TypeVar("T")


class TorchRanks(Ranks):
    """Over gloo, on the host."""

    def __init__(self, group: distributed.ProcessGroup) -> None:
        super().__init__(rank=distributed.get_rank(), world_size=distributed.get_world_size())
        self._group = group

    def maximum(self, values: Sequence[float]) -> list[float]:
        tensor = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, group=self._group)
        largest: list[float] = tensor.tolist()
        return largest

    def gather(self, part: T) -> list[T]:
        parts: list[Any] = [None] * self.world_size
        distributed.all_gather_object(parts, part, group=self._group)
        return parts

    def gather_on_first(self, part: T) -> list[T]:
        parts: list[Any] = [None] * self.world_size
        distributed.gather_object(part, parts if self.rank == 0 else None, dst=0, group=self._group)
        return parts

    def broadcast(self, value: T) -> T:
        values: list[T] = [value]
        distributed.broadcast_object_list(values, src=0, group=self._group)
        return values[0]

    def close(self) -> None:
        distributed.destroy_process_group()


def join_processes(device: torch.device) -> TorchRanks:
    """Join the default group (gloo or NCCL), and make another one of the hosts over which the ranks agree."""
    master = os.environ.get("MASTER_ADDR", "")
    interface = host.interface_to(master)
    if interface is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    if loopback.is_loopback(master):
        loopback.serve_processes()
    if device.type == "cpu":
        distributed.init_process_group("gloo")
    else:
        distributed.init_process_group("nccl", device_id=device)
    group = distributed.new_group(backend="gloo")
    assert isinstance(group, distributed.ProcessGroup)
    return TorchRanks(group)


def copy_statistics_of_first(model: nn.Module) -> None:
    """Each rank keeps its own running statistics in training; a checkpoint holds those of rank 0."""
    for buffer in model.buffers():
        if buffer.is_floating_point():
            distributed.broadcast(buffer, src=0)


def sync_batch_norms(model: nn.Module) -> nn.Module:
    """Every BatchNorm with the statistics of all processes."""
    synced: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    for norm in synced.modules():
        # A plain one trains without its counter of batches, this one refuses to. Kept out of checkpoints.
        if isinstance(norm, nn.SyncBatchNorm) and norm.track_running_stats and norm.num_batches_tracked is None:
            counter = torch.zeros((), dtype=torch.long, device=norm.weight.device)
            norm.register_buffer("num_batches_tracked", counter, persistent=False)
    return synced


def time_all_reduce(
    num_bytes: int, *, device: torch.device, ranks: Ranks, max_seconds: float
) -> tuple[list[float], float]:
    """Seconds of one all-reduce of fp32, measured several times: at least once, and until `max_seconds` are spent.

    Also the seconds that all of it took, warm-up included. Both are the same on every rank.
    """
    begin_s = time.perf_counter()
    # Zeros: sums of sums must not run into infinity, and no backend looks at the values.
    buffer = torch.zeros(max(1, num_bytes // 4), device=device)

    def run(num: int) -> float:
        begin = time.perf_counter()
        for _ in range(num):
            distributed.all_reduce(buffer)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return ranks.slowest(time.perf_counter() - begin)

    samples = sample_exchange(run, max_seconds)
    return samples, ranks.slowest(time.perf_counter() - begin_s)
