"""Expands a suite to cells, in the order in which they run."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from trainmark.spec.catalog import Catalog, Offer
from trainmark.spec.cell import Cell, StartWeights
from trainmark.spec.suite import Suite, Sweep


def expand(
    suite: Suite, *, catalog: Catalog, device: str, installed: Collection[str] = (), for_cpus: Collection[str] = ()
) -> tuple[Cell, ...]:
    """Repeats are the outermost loop: A B A B, not A A B B, so that a drifting machine affects all cells alike.

    `device` and the first supported framework that is `installed` are used where a sweep names none; on a GPU those
    `for_cpus` only come last.
    """
    most = max((sweep.repeat for sweep in suite.sweeps), default=0)
    rounds = (
        cell
        for repeat in range(1, most + 1)
        for sweep in suite.sweeps
        if repeat <= sweep.repeat
        for cell in _expand_sweep(sweep, repeat, catalog[sweep.workload], device, installed, for_cpus)
    )
    return tuple(dict.fromkeys(rounds))


def _resolve_target(sweep: Sweep, offer: Offer) -> tuple[tuple[str, float], ...]:
    if sweep.until_target is False:
        return ()
    if sweep.until_target is True:
        return offer.targets
    return ((offer.targets[0][0], float(sweep.until_target)),)


def _default_framework(offer: Offer, device: str, installed: Collection[str], for_cpus: Collection[str]) -> str:
    here = [name for name in offer.frameworks if name in installed]
    fitting = [name for name in here if device == "cpu" or name not in for_cpus]
    return [*fitting, *here, *offer.frameworks][0]


def _expand_sweep(
    sweep: Sweep, repeat: int, offer: Offer, device: str, installed: Collection[str], for_cpus: Collection[str]
) -> list[Cell]:
    device = sweep.device or device
    axes = itertools.product(
        sweep.framework or (_default_framework(offer, device, installed, for_cpus),),
        sweep.recipe,
        sweep.precision,
        sweep.size,
        sweep.nodes,
        sweep.devices,
        sweep.data,
    )
    return [
        Cell(
            workload=sweep.workload,
            framework=framework,
            recipe=recipe,
            precision=precision,
            size=size,
            device=device,
            nodes=nodes,
            devices_per_node=devices,
            batch_size_per_device=batch_size,
            data=data,
            epochs=sweep.epochs or (offer.epochs if sweep.until_target else None),
            lr=sweep.lr,
            until_target=_resolve_target(sweep, offer),
            seed=sweep.seed,
            repeat=repeat,
            weights=None if sweep.weights is None else StartWeights(path=sweep.weights),
        )
        for framework, recipe, precision, size, nodes, devices, data in axes
        for batch_size in sweep.batch_size or (offer.batch_sizes[size],)
    ]
