"""What each optimisation of the recipe `fast` is worth on this machine: it is left out, the others stay."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trainmark.controller.turns import Prepared, Spread, Variant, in_turns, ratio, summarise
from trainmark.errors import InputError, RunError
from trainmark.host import num_cores
from trainmark.plan.feasible import require
from trainmark.plan.machine import Machine
from trainmark.spec.cell import PRECISIONS, Cell, DataSource
from trainmark.workloads.optimisations import OPTIMISATIONS, Optimisation, optimisations_of
from trainmark.workloads.registry import load_card

_FRAMEWORK = "torch"
"""The one whose optimisations can be left out one by one so far."""
_WARM_UP_S = 0.5
_MOST_AT_ONCE = 6
"""Variants on one GPU: each holds a training in its memory."""


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
    at_once: int
    """Variants that are prepared at the same time."""


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
    """None if others were prepared at the same time: they shared the cores."""
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class Ablation:
    options: AblationOptions
    unit: str
    rate: Spread
    """Of `fast`, over all rounds."""
    first_step_s: float
    rows: tuple[Ablated, ...]
    not_measured: tuple[str, ...]
    """Optimisations that it did not come to, since it was interrupted or `fast` itself failed."""


def read_options(
    *,
    workload: str,
    device: str | None,
    precision: str | None,
    size: str | None,
    batch_size: int | None,
    only: Sequence[str],
    rounds: int,
    seconds: float,
    machine: Machine,
) -> AblationOptions:
    """All faults are found before anything starts."""
    card = load_card(workload)
    if "fast" not in card.recipes:
        raise InputError(f"{workload} has no recipe fast", hint="trainmark list workloads")
    device = device or machine.best_device
    require(_FRAMEWORK, machine, device=device)
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
        at_once=1 if device == "cpu" else max(1, min(_MOST_AT_ONCE, num_cores() // 2)),
    )


Cause = KeyboardInterrupt | RunError
"""What ended an ablation early: Ctrl-C or SIGTERM, or a failure of `fast` itself."""


def ablate(
    options: AblationOptions, *, say: Callable[[str], None], prepare: Callable[[Variant], Prepared] = Prepared
) -> tuple[Ablation, Cause | None]:
    """`fast` stays prepared; a few variants at a time are prepared together and then measured in turns with it.

    If it ends early, what was measured before is returned with the cause; with nothing measured, the cause is raised.
    """
    whole = prepare(_variant(options, ()))
    wanted = list(_wanted(options))
    all_rates: list[float] = []
    rows: list[Ablated] = []
    cause: Cause | None = None
    try:
        whole.wait_for_first_step()
        say(f"fast: first step after {whole.first['first_step_s']:.0f} s")
        whole.measure(_WARM_UP_S)
        for first in range(0, len(wanted), options.at_once):
            whole.rates = []
            found, early_end = _leave_out(options, wanted[first : first + options.at_once], whole, prepare)
            rows += found
            all_rates += whole.rates
            for row in found:
                say(f"without {row.optimisation.name}: {_say(row)}")
            if early_end is not None:
                raise early_end
        whole.end()
    except (KeyboardInterrupt, RunError) as error:
        cause = error
    finally:
        whole.kill()
    if cause is not None and not any(row.worth for row in rows):
        raise cause
    measured = {row.optimisation for row in rows}
    return Ablation(
        options=options,
        unit=load_card(options.workload).unit,
        rate=summarise(all_rates),
        first_step_s=whole.first["first_step_s"],
        rows=tuple(sorted(rows, key=lambda row: -(row.worth.value if row.worth else 0.0))),
        not_measured=tuple(one.name for one in wanted if one not in measured),
    ), cause


def _say(row: Ablated) -> str:
    if row.worth is None:
        return row.failure or ""
    doubt = ", not distinguishable from 1" if row.worth.has_one else ""
    return f"fast is {row.worth.to_text('.3f')} times as fast{doubt}"


def _leave_out(
    options: AblationOptions, group: Sequence[Optimisation], whole: Prepared, prepare: Callable[[Variant], Prepared]
) -> tuple[list[Ablated], Cause | None]:
    """A row without each of the group; after an early end, of those with at least one complete round."""
    variants: list[Prepared] = []
    failures: dict[Prepared, str] = {}
    cause: Cause | None = None
    try:
        variants.extend(prepare(_variant(options, (one.name,), num_at_once=len(group))) for one in group)
        _measure_group(options, whole, variants, failures)
        for variant in variants:
            variant.end()
    except (KeyboardInterrupt, RunError) as error:
        cause = error
    finally:
        for variant in variants:
            variant.kill()
    num_rounds = min(len(one.rates) for one in (whole, *variants) if one not in failures)
    for prepared in (whole, *variants):
        prepared.rates = prepared.rates[:num_rounds]
    return [
        _describe(options, one, whole, variant, failures.get(variant), is_alone=len(group) == 1)
        for one, variant in zip(group, variants, strict=False)
        if variant in failures or num_rounds
    ], cause


def _measure_group(
    options: AblationOptions, whole: Prepared, variants: Sequence[Prepared], failures: dict[Prepared, str]
) -> None:
    """All are ready before the first is measured: compiling would disturb it. One that fails is left out."""
    for variant in variants:
        with _noting_failure(failures, variant):
            variant.wait_for_first_step()
    for variant in variants:
        if variant not in failures:
            with _noting_failure(failures, variant):
                variant.measure(_WARM_UP_S)
            variant.rates = []
    for one in in_turns([whole, *variants], options.rounds):
        if one is whole:
            whole.measure(options.seconds)
        elif one not in failures:
            with _noting_failure(failures, one):
                one.measure(options.seconds)


@contextlib.contextmanager
def _noting_failure(failures: dict[Prepared, str], variant: Prepared) -> Iterator[None]:
    try:
        yield
    except RunError as error:
        failures[variant] = str(error).strip().splitlines()[-1]


def _describe(
    options: AblationOptions,
    optimisation: Optimisation,
    whole: Prepared,
    variant: Prepared,
    failure: str | None,
    *,
    is_alone: bool,
) -> Ablated:
    name = optimisation.name
    everything = optimisations_of(options.workload, options.device)
    also = everything - optimisations_of(options.workload, options.device, without=[name]) - {name}
    is_measured = failure is None
    return Ablated(
        optimisation=optimisation,
        also_without=tuple(sorted(also)),
        rate=summarise(variant.rates) if is_measured else None,
        worth=ratio(whole, variant) if is_measured else None,
        first_step_s=variant.first["first_step_s"] if is_measured and is_alone else None,
        failure=failure,
    )


def _wanted(options: AblationOptions) -> Iterator[Optimisation]:
    used = optimisations_of(options.workload, options.device)
    return (one for one in OPTIMISATIONS if one.name in (options.only or used))


def _variant(options: AblationOptions, without: tuple[str, ...], *, num_at_once: int = 1) -> Variant:
    cell = Cell(
        workload=options.workload, framework="torch", recipe="fast", precision=options.precision, size=options.size,
        device=options.device, nodes=1, devices_per_node=1, batch_size_per_device=options.batch_size, data=DataSource(),
        epochs=None, lr=None, until_target=(), seed=0, repeat=1,
    )  # fmt: skip
    return Variant(
        name=f"fast without {', '.join(without)}" if without else "fast",
        cell=cell,
        without=without,
        environment=_share_of_cores(num_at_once) if num_at_once > 1 else {},
    )


def _share_of_cores(num_at_once: int) -> dict[str, str]:
    """As ranks on one machine share them; otherwise the compiler of each would use as many processes as cores."""
    num_threads = max(1, num_cores() // num_at_once)
    return {"LOCAL_WORLD_SIZE": str(num_at_once), "TORCHINDUCTOR_COMPILE_THREADS": str(num_threads)}
