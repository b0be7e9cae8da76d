"""The processes of a run under Paddle, and all-reduce timed between them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import paddle
from paddle import distributed, nn
from paddle.base import core

from trainmark import host, rank_environment
from trainmark.worker.host_exchange import HostRanks, connect
from trainmark.worker.ranks import Ranks, sample_exchange
from trainmark.workloads.paddle_layers import BatchNorm2D, SyncBatchNorm

_BACKENDS = {"cpu": "gloo", "cuda": "nccl"}


class PaddleRanks(HostRanks):
    """They agree over connections of our own: gloo gives up after 30 s, and it refuses tensors on a GPU."""

    def close(self) -> None:
        super().close()
        distributed.destroy_process_group()


def join_processes(device_type: str) -> PaddleRanks:
    """Join the default group (gloo or NCCL), over which gradients go, and connect the hosts."""
    rank = rank_environment.read("RANK", os.environ, default=0)
    world_size = rank_environment.read("WORLD_SIZE", os.environ, default=1)
    os.environ |= paddle_variables(device_type, os.environ)
    master = os.environ["PADDLE_MASTER"].rpartition(":")[0]
    interface = host.interface_to(master)
    if interface is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    distributed.init_parallel_env()
    store = core.create_or_get_global_tcp_store()
    is_one_machine = rank_environment.read("LOCAL_WORLD_SIZE", os.environ, default=1) == world_size
    connections = connect(
        rank=rank,
        world_size=world_size,
        host="127.0.0.1" if is_one_machine else master,
        put=store.set,
        get=lambda key: bytes(store.get(key)).decode(),
    )
    return PaddleRanks(connections, rank=rank, world_size=world_size)


def paddle_variables(device_type: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What `init_parallel_env` reads; only Paddle's own launcher sets it.

    All processes meet at PADDLE_MASTER. PADDLE_CURRENT_ENDPOINT must only be there: nothing connects to it.
    """
    rank = rank_environment.read("RANK", environment, default=0)
    variables = {
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_TRAINERS_NUM": str(rank_environment.read("WORLD_SIZE", environment, default=1)),
        "PADDLE_DISTRI_BACKEND": _BACKENDS[device_type],
    }
    if device_type == "cuda":
        variables["FLAGS_selected_gpus"] = str(rank_environment.read("LOCAL_RANK", environment, default=0))
    if environment.get("MASTER_ADDR") and environment.get("MASTER_PORT"):
        variables["PADDLE_MASTER"] = f"{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}"
    if "PADDLE_CURRENT_ENDPOINT" not in environment:
        variables["PADDLE_CURRENT_ENDPOINT"] = f"{os.uname().nodename}:{rank}"
    return variables


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
