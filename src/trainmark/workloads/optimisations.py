"""What the recipe `fast` does differently from `reference`, by name, so that each can be left out and measured.

None of them changes the mathematics. `trainmark ablate` leaves out one at a time; a run's `env.json` names those it
used. On a CPU only what is faster there is used: channels_last was slower, and compiling takes minutes.
"""

from __future__ import annotations

from collections.abc import Collection
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
    carries: tuple[str, ...] = ()
    """In its workloads these are left out with it."""


OPTIMISATIONS = (
    Optimisation(name="channels_last", meaning="channels_last layout, inputs in the precision's type"),
    Optimisation(name="compile", meaning="torch.compile"),
    Optimisation(name="fused_optimizer", meaning="one kernel for all parameters' updates", devices=_ANY),
    Optimisation(
        name="whole_step_graph",
        meaning="forward, backward and optimizer in one CUDA graph",
        needs=("fused_optimizer",),
    ),
    Optimisation(
        name="shared_blocks",
        meaning="equal blocks are compiled once",
        workloads=("psenet", "resnet50", "tsm"),
        needs=("compile",),
    ),
    Optimisation(
        name="sum_norms",
        meaning="BatchNorm statistics from two sums",
        workloads=("hrnet_w18", "psenet", "resnet50", "tsm"),
        needs=("compile",),
    ),
    Optimisation(
        name="found_signs",
        meaning="ReLU's gradient finds its signs from BatchNorm's input",
        workloads=("resnet50",),
        needs=("compile", "shared_blocks", "sum_norms"),
    ),
    Optimisation(
        name="joined_gradients",
        meaning="one kernel for the gradient at the end of a block and its sums",
        workloads=("resnet50",),
        needs=("compile", "shared_blocks", "sum_norms"),
    ),
    Optimisation(
        name="tuned_pointwise",
        meaning="pointwise kernels are tried with several block sizes",
        workloads=("tsm",),
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
        needs=("compile",),
    ),
    Optimisation(
        name="gathering_resize",
        meaning="bilinear resize with a gradient that gathers",
        workloads=("hrnet_w18", "psenet"),
    ),
    Optimisation(
        name="written_pyramid",
        meaning="a Triton kernel enlarges and concatenates levels of a pyramid",
        workloads=("hrnet_w18", "psenet"),
        needs=("gathering_resize",),
    ),
    Optimisation(
        name="padded_channels", meaning="channels padded to multiples of 8", workloads=("hrnet_w18", "psenet")
    ),
    Optimisation(name="parallel_branches", meaning="branches on streams of their own", workloads=("hrnet_w18",)),
    Optimisation(
        name="fixed_shapes",
        meaning="objects, proposals and regions in fixed numbers of places",
        workloads=("mask_rcnn",),
        carries=("compile", "whole_step_graph"),
    ),
)

_LEFT_OUT_WITH_EXCHANGE = {
    # DDP sends a gradient when the stream of the last one of its bucket has it: there may be no other streams.
    "hrnet_w18": frozenset({"parallel_branches"}),
    # Its batches have one of several sets of shapes. Each process would meet a new one in another step, and capture
    # while the others wait for its gradients.
    "mask_rcnn": frozenset({"whole_step_graph"}),
}


def optimisations_of(workload: str, device_type: str, *, without: Collection[str] = ()) -> frozenset[str]:
    """Names of those that `fast` uses for this workload on this kind of device, less `without` and what needs that."""
    unknown = set(without) - {known.name for known in OPTIMISATIONS}
    if unknown:
        raise ValueError(f"unknown optimisation: {', '.join(sorted(unknown))}")
    possible = [
        one for one in OPTIMISATIONS if workload in (one.workloads or (workload,)) and device_type in one.devices
    ]
    left_out = set(without).union(*(one.carries for one in possible if one.name in without))
    return frozenset(one.name for one in possible if not {one.name, *one.needs} & left_out)


def left_out_with_exchange(workload: str) -> frozenset[str]:
    """Names of those that `fast` does not use for this workload where processes exchange gradients."""
    return _LEFT_OUT_WITH_EXCHANGE.get(workload, frozenset())


def network_optimisations(workload: str, device_type: str, *, without: Collection[str] = ()) -> frozenset[str]:
    """Those that replace parts of the workload's network. Without any, it is the network of `reference`."""
    general = {one.name for one in OPTIMISATIONS if one.workloads is None}
    return optimisations_of(workload, device_type, without=without) - general
