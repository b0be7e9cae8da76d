"""Where arrays lie: on the one device of this process, as parts of arrays over the devices of all processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from trainmark import rank_environment

AXIS = "ranks"
SAME = PartitionSpec()
"""The same on every rank."""
OWN = PartitionSpec(AXIS)
"""Each rank has its own part, one after the other along the first dimension."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    device: jax.Device
    mesh: Mesh | None
    """Of all ranks; None for a single one."""

    @classmethod
    def of(cls, world_size: int) -> Placement:
        mesh = Mesh(np.array(jax.devices()), (AXIS,)) if world_size > 1 else None
        return cls(device=jax.local_devices()[0], mesh=mesh)

    @property
    def num_ranks(self) -> int:
        return 1 if self.mesh is None else self.mesh.size

    def put_same(self, tree: Any) -> Any:
        """Arrays that are equal on all ranks."""
        return jax.tree.map(lambda leaf: self._put(leaf, SAME, 1), tree)

    def put_own(self, tree: Any) -> Any:
        """The part of this rank, of arrays that are one after the other along the first dimension."""
        return jax.tree.map(lambda leaf: self._put(leaf, OWN, self.num_ranks), tree)

    def _put(self, array: Any, spec: PartitionSpec, num_parts: int) -> Array:
        local: Array = jax.device_put(array, self.device)
        if self.mesh is None:
            return local
        shape = (num_parts * local.shape[0], *local.shape[1:]) if spec is OWN else local.shape
        sharding = NamedSharding(self.mesh, spec)
        placed: Array = jax.make_array_from_single_device_arrays(shape, sharding, [local])
        return placed

    def own(self, tree: Any) -> Any:
        """This rank's part of each array, for computations that are not shared; what is on the host stays there."""
        if self.mesh is None:
            return tree
        return jax.tree.map(lambda leaf: leaf.addressable_data(0) if isinstance(leaf, Array) else leaf, tree)


def choose_platform(device: str) -> None:
    """Before the first array is made: JAX would otherwise take every GPU that it sees."""
    jax.config.update("jax_platforms", device)
    if device == "cuda":
        jax.config.update("jax_cuda_visible_devices", str(rank_environment.read("LOCAL_RANK", os.environ, default=0)))
    elif "OMP_NUM_THREADS" in os.environ:
        # XLA has one thread for each core whatever the launcher says, and reads this name only.
        os.environ.setdefault("NPROC", os.environ["OMP_NUM_THREADS"])
