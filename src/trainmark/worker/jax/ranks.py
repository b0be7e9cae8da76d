"""The processes of a run under JAX, and all-reduce timed between them."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import jax
import numpy as np
from jax import lax
from jax._src import distributed

from trainmark import rank_environment
from trainmark.worker.host_exchange import HostRanks, connect
from trainmark.worker.jax.placement import AXIS, OWN, SAME, Placement
from trainmark.worker.ranks import Ranks, sample_exchange

_START_MS = 300_000
"""All ranks have met a moment before."""
_SHUTDOWN_S = 30
"""A rank that has finished waits this long for the others to finish too: JAX's own 300 s keep a failed run alive."""


class JaxRanks(HostRanks):
    def close(self) -> None:
        super().close()
        jax.distributed.shutdown()


def join_processes() -> JaxRanks:
    """As the launcher says. On one machine nobody else can reach the coordinator."""
    rank = rank_environment.read("RANK", os.environ, default=0)
    world_size = rank_environment.read("WORLD_SIZE", os.environ, default=1)
    local_world_size = rank_environment.read("LOCAL_WORLD_SIZE", os.environ, default=1)
    host = "127.0.0.1" if local_world_size == world_size else os.environ["MASTER_ADDR"]
    address = f"{host}:{os.environ['MASTER_PORT']}"
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        address,
        num_processes=world_size,
        process_id=rank,
        local_device_ids=[rank_environment.read("LOCAL_RANK", os.environ, default=0)],
        coordinator_bind_address=address,
        shutdown_timeout_seconds=_SHUTDOWN_S,
    )
    # JAX takes SIGTERM for itself; our own handler ends the loop at the next edge and writes a checkpoint.
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    client: Any = distributed.global_state.client
    connections = connect(
        rank=rank,
        world_size=world_size,
        host=host,
        put=client.key_value_set,
        get=lambda key: str(client.blocking_key_value_get(key, _START_MS)),
    )
    return JaxRanks(connections, rank=rank, world_size=world_size)


def time_all_reduce(num_bytes: int, *, placement: Placement, ranks: Ranks, max_seconds: float) -> list[float]:
    """Seconds of one all-reduce of fp32, measured several times: at least once, and until `max_seconds` are spent."""
    # Zeros: sums of sums must not run into infinity, and no backend looks at the values.
    buffer = placement.put_own(np.zeros(max(1, num_bytes // 4), np.float32))
    reduce = jax.jit(
        jax.shard_map(
            lambda part: lax.psum(part, AXIS), mesh=placement.mesh, in_specs=OWN, out_specs=SAME, check_vma=False
        )
    )

    def run(num: int) -> float:
        begin = time.perf_counter()
        for _ in range(num):
            result = reduce(buffer)
        jax.block_until_ready(result)
        return ranks.slowest(time.perf_counter() - begin)

    return sample_exchange(run, max_seconds)
