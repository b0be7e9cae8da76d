"""The processes of a run under JAX, and all-reduce timed between them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax import lax
from jax._src import distributed

from trainmark import rank_environment
from trainmark.worker.jax.parcels import pack, unpack
from trainmark.worker.jax.placement import AXIS, OWN, SAME, Placement
from trainmark.worker.ranks import Ranks, sample_exchange

T = TypeVar("T")

_FOREVER_MS = 7 * 24 * 3600 * 1000
"""One rank may evaluate for hours while the others wait; the supervisor ends a run that hangs."""
_SHUTDOWN_S = 30
"""A rank that has finished waits this long for the others to finish too: JAX's own 300 s keep a failed run alive."""


class JaxRanks(Ranks):
    """Over the key-value store of jax.distributed's coordinator, on the host."""

    def __init__(self, client: Any, *, rank: int, world_size: int) -> None:
        super().__init__(rank=rank, world_size=world_size)
        self._client = client
        self._round = 0

    def maximum(self, values: Sequence[float]) -> list[float]:
        return [max(column) for column in zip(*self.gather(list(values)), strict=True)]

    def gather(self, part: T) -> list[T]:
        self._round += 1
        self._client.key_value_set_bytes(self._key(self._round, self.rank), pack(part))
        keys = (self._key(self._round, rank) for rank in range(self.world_size))
        parts = [unpack(self._client.blocking_key_value_get_bytes(key, _FOREVER_MS)) for key in keys]
        # All ranks are in this round, so all have read the one before.
        self._client.key_value_delete(self._key(self._round - 1, self.rank))
        return parts

    def close(self) -> None:
        jax.distributed.shutdown()

    def _key(self, number: int, rank: int) -> str:
        return f"trainmark/{number}/{rank}"


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
    return JaxRanks(distributed.global_state.client, rank=rank, world_size=world_size)


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
