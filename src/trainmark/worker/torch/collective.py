"""Processes that meet, and all-reduce on the clock between them: for a step's exchange and `doctor --network`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch
from torch import distributed, nn

from trainmark import host

_NUM_SAMPLES = 7
_SAMPLE_S = 0.02
"""Short exchanges are repeated back to back until they last this long: one alone is shorter than the clocks agree."""
_MAX_REPEATS = 200


def join_processes(device: torch.device) -> distributed.ProcessGroup:
    """Joins the default group, gloo or NCCL, and returns one of the hosts, over which ranks agree."""
    interface = host.interface_to(os.environ.get("MASTER_ADDR", ""))
    if interface is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    if device.type == "cpu":
        distributed.init_process_group("gloo")
    else:
        distributed.init_process_group("nccl", device_id=device)
    control = distributed.new_group(backend="gloo")
    assert isinstance(control, distributed.ProcessGroup)
    return control


def sync_batch_norms(model: nn.Module) -> nn.Module:
    """Every BatchNorm with the statistics of all processes."""
    synced: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    for norm in synced.modules():
        # A plain one trains without its counter of batches, this one refuses to. Kept out of checkpoints.
        if isinstance(norm, nn.SyncBatchNorm) and norm.track_running_stats and norm.num_batches_tracked is None:
            counter = torch.zeros((), dtype=torch.long, device=norm.weight.device)
            norm.register_buffer("num_batches_tracked", counter, persistent=False)
    return synced


def slowest(seconds: float, control: distributed.ProcessGroup | None) -> float:
    """The largest of all ranks' values, the same on each. On the host, and nobody goes on before all have come."""
    if control is None:
        return seconds
    value = torch.tensor(seconds, dtype=torch.float64)
    distributed.all_reduce(value, op=distributed.ReduceOp.MAX, group=control)
    return value.item()


def time_all_reduce(
    num_bytes: int, *, device: torch.device, control: distributed.ProcessGroup | None, max_seconds: float
) -> tuple[list[float], float]:
    """Seconds of one all-reduce of fp32, several times; once at least, and then until `max_seconds` are spent.

    And the seconds that all of it took, with what is repeated or only warms up: the same on every rank.
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
        return slowest(time.perf_counter() - begin, control)

    samples = _sample(run, max_seconds)
    return samples, slowest(time.perf_counter() - begin_s, control)


def _sample(run: Callable[[int], float], max_seconds: float) -> list[float]:
    """Every decision is made on times that all ranks agreed on, so that all make the same one."""
    first_s = run(1)  # opens connections, which is no part of an exchange
    warm_s = run(1) if first_s < max_seconds else first_s
    num = max(1, min(_MAX_REPEATS, int(_SAMPLE_S / max(warm_s, 1e-9))))
    samples: list[float] = []
    spent_s = 0.0
    while not samples or (len(samples) < _NUM_SAMPLES and spent_s < max_seconds):
        took_s = run(num)
        spent_s += took_s
        samples.append(took_s / num)
    return samples
