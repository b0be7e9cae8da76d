"""What the recipe `fast` does differently from `reference`, by name, so that each can be left out and measured.

None of them changes the mathematics. `trainmark ablate` leaves out one at a time; a run's `flags` name those it used.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

_CUDA = ("cuda",)
_ANY = ("cpu", "cuda")


@dataclass(frozen=True, kw_only=True)
class Optimisation:
    name: str
    meaning: str
    workloads: tuple[str, ...] | None = None
    """None: all that have the recipe."""
    devices: tuple[str, ...] = _CUDA
    needs: tuple[str, ...] = ()
    """Without one of these it is left out too."""


OPTIMISATIONS = (
    Optimisation(name="channels_last", meaning="channels_last layout, inputs in the precision's type", devices=_ANY),
    Optimisation(name="compile", meaning="torch.compile", devices=_ANY),
    Optimisation(name="fused_optimizer", meaning="one kernel for all parameters' updates", devices=_ANY),
    Optimisation(
        name="whole_step_graph",
        meaning="forward, backward and optimizer in one CUDA graph",
        needs=("fused_optimizer",),
    ),
    Optimisation(
        name="tuned_kernels", meaning="pointwise and reduction kernels tuned by the compiler", needs=("compile",)
    ),
    Optimisation(
        name="shared_blocks",
        meaning="equal blocks are compiled once (shorter compilation, same kernels)",
        workloads=("psenet", "resnet50", "tsm"),
        devices=_ANY,
        needs=("compile",),
    ),
    Optimisation(
        name="sum_norms",
        meaning="BatchNorm statistics from two sums",
        workloads=("hrnet_w18", "psenet", "resnet50", "tsm"),
        needs=("compile",),
    ),
    Optimisation(
        name="block_stem",
        meaning="the first convolution on 2x2 blocks of pixels",
        workloads=("hrnet_w18", "psenet", "resnet50", "tsm"),
    ),
    Optimisation(
        name="gathering_pool",
        meaning="max-pool with a gradient that gathers",
        workloads=("psenet", "resnet50", "tsm"),
    ),
    Optimisation(
        name="fused_shift",
        meaning="temporal shift inside its neighbours' kernels",
        workloads=("tsm",),
        devices=_ANY,
        needs=("compile",),
    ),
    Optimisation(
        name="gathering_resize",
        meaning="bilinear resize with a gradient that gathers",
        workloads=("hrnet_w18", "psenet"),
    ),
    Optimisation(
        name="padded_channels", meaning="channels padded to multiples of 8", workloads=("hrnet_w18", "psenet")
    ),
    Optimisation(name="parallel_branches", meaning="branches on streams of their own", workloads=("hrnet_w18",)),
)


def optimisations_of(workload: str, device_type: str, *, without: Collection[str] = ()) -> frozenset[str]:
    """Names of those that `fast` uses for this workload on this kind of device, less `without` and what needs that."""
    all_of_it = [known for known in OPTIMISATIONS if known.workloads is None or workload in known.workloads]
    return _chosen(all_of_it, device_type, without)


def general_optimisations(device_type: str, *, without: Collection[str] = ()) -> frozenset[str]:
    """The same of those that every workload has."""
    return _chosen([known for known in OPTIMISATIONS if known.workloads is None], device_type, without)


def _chosen(known: Sequence[Optimisation], device_type: str, without: Collection[str]) -> frozenset[str]:
    unknown = set(without) - {optimisation.name for optimisation in OPTIMISATIONS}
    if unknown:
        raise ValueError(f"unknown optimisation: {', '.join(sorted(unknown))}")
    return frozenset(
        one.name for one in known if device_type in one.devices and not {one.name, *one.needs} & set(without)
    )
