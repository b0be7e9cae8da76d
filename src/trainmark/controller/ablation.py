"""What each optimisation of the recipe `fast` is worth on this machine: it is left out, the others stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trainmark.controller.turns import Prepared, Spread, Variant, measure_in_turns, ratio, summarise
from trainmark.errors import InputError, RunError
from trainmark.spec.cell import PRECISIONS, Cell, DataSource
from trainmark.workloads.optimisations import OPTIMISATIONS, Optimisation, optimisations_of
from trainmark.workloads.registry import load_card

_WARM_UP_S = 0.5


@dataclass(frozen=True, kw_only=True)
class AblationOptions:
    workload: str
    device: str
    precision: str
    size: str
    batch_size: int
    only: tuple[str, ...]
    """Names of optimisations; empty: all that `fast` uses here."""
    rounds: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Ablated:
    optimisation: Optimisation
    also_without: tuple[str, ...]
    """Optimisations that need this one, so they were left out with it."""
    rate: Spread | None
    """Samples per second without it; None if it failed."""
    worth: Spread | None
    """The rate of `fast` over that."""
    first_step_s: float | None
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class Ablation:
    options: AblationOptions
    unit: str
    rate: Spread
    """Of `fast`, over all rounds."""
    first_step_s: float
    rows: tuple[Ablated, ...]


def read_options(
    *,
    workload: str,
    device: str,
    precision: str | None,
    size: str | None,
    batch_size: int | None,
    only: Sequence[str],
    rounds: int,
    seconds: float,
) -> AblationOptions:
    """All faults are found before anything starts."""
    card = load_card(workload)
    if "fast" not in card.recipes:
        raise InputError(f"{workload} has no recipe fast", hint="trainmark list workloads")
    precision = precision or ("bf16" if device == "cuda" else "fp32")
    if precision not in PRECISIONS:
        raise InputError(f"unknown precision {precision!r}", hint=f"use one of {', '.join(PRECISIONS)}")
    size = size or ("full" if device == "cuda" else "small")
    if size not in card.sizes:
        raise InputError(f"{workload} has no size {size!r}", hint=f"use one of {', '.join(card.sizes)}")
    known = sorted(optimisations_of(workload, device))
    unknown = [name for name in only if name not in known]
    if unknown:
        raise InputError(
            f"fast does not use {', '.join(unknown)} for {workload} on {device}", hint=f"use {', '.join(known)}"
        )
    return AblationOptions(
        workload=workload,
        device=device,
        precision=precision,
        size=size,
        batch_size=batch_size or card.sizes[size].batch_size or 1,
        only=tuple(only),
        rounds=rounds,
        seconds=seconds,
    )


def ablate(
    options: AblationOptions, *, say: Callable[[str], None], prepare: Callable[[Variant], Prepared] = Prepared
) -> Ablation:
    """`fast` stays prepared; the variants come one after the other and are measured in turns with it."""
    whole = prepare(_variant(options, ())).wait_for_first_step()
    say(f"fast: first step after {whole.first['first_step_s']:.0f} s")
    all_rates: list[float] = []
    rows = []
    try:
        whole.measure(_WARM_UP_S)
        for optimisation in _wanted(options):
            whole.rates = []
            row = _leave_out(options, optimisation, whole, prepare)
            say(f"without {optimisation.name}: {_say(row)}")
            rows.append(row)
            all_rates += whole.rates
    finally:
        whole.end()
    return Ablation(
        options=options,
        unit=load_card(options.workload).unit,
        rate=summarise(all_rates),
        first_step_s=whole.first["first_step_s"],
        rows=tuple(sorted(rows, key=lambda row: -(row.worth.value if row.worth else 0.0))),
    )


def _say(row: Ablated) -> str:
    return row.failure or "" if row.worth is None else f"fast is {row.worth.value:.3f} times as fast"


def _leave_out(
    options: AblationOptions, optimisation: Optimisation, whole: Prepared, prepare: Callable[[Variant], Prepared]
) -> Ablated:
    name = optimisation.name
    everything = optimisations_of(options.workload, options.device)
    also = everything - optimisations_of(options.workload, options.device, without=[name]) - {name}
    also_without = tuple(sorted(also))
    variant = prepare(_variant(options, (name,)))
    try:
        variant.wait_for_first_step()
        variant.measure(_WARM_UP_S)
        variant.rates = []
        measure_in_turns([whole, variant], rounds=options.rounds, seconds=options.seconds)
    except RunError as error:
        return Ablated(
            optimisation=optimisation, also_without=also_without, rate=None, worth=None, first_step_s=None,
            failure=str(error).strip().splitlines()[-1],
        )  # fmt: skip
    finally:
        variant.end()
    return Ablated(
        optimisation=optimisation,
        also_without=also_without,
        rate=summarise(variant.rates),
        worth=ratio(whole, variant),
        first_step_s=variant.first["first_step_s"],
    )


def _wanted(options: AblationOptions) -> Iterator[Optimisation]:
    used = optimisations_of(options.workload, options.device)
    return (one for one in OPTIMISATIONS if one.name in (options.only or used))


def _variant(options: AblationOptions, without: tuple[str, ...]) -> Variant:
    cell = Cell(
        workload=options.workload, framework="torch", recipe="fast", precision=options.precision, size=options.size,
        device=options.device, nodes=1, devices_per_node=1, batch_size_per_device=options.batch_size, data=DataSource(),
        epochs=None, lr=None, until_target=(), seed=0, repeat=1,
    )  # fmt: skip
    return Variant(name=f"fast without {', '.join(without)}" if without else "fast", cell=cell, without=without)
