"""What `trainmark parity` is asked for, and what it refuses before anything is started."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from trainmark.analyse.parity import ROUNDING_LIMITS
from trainmark.analyse.parity_command import USUAL_PRECISIONS, USUAL_SIZE, parity_command
from trainmark.controller.workload import offer_of
from trainmark.errors import InputError
from trainmark.frameworks import frameworks
from trainmark.plan.feasible import Reach, require, why_not
from trainmark.plan.machine import Machine, read_machine
from trainmark.runfolder.parity import LEAST_REPEATS, LEAST_STEPS, REFERENCE, ROUNDING, STAGES, USUAL_SEED
from trainmark.spec.cell import Cell, DataSource
from trainmark.workloads.card import Card
from trainmark.workloads.registry import load_card


@dataclass(frozen=True, kw_only=True)
class ParityOptions:
    workload: str
    frameworks: tuple[str, ...]
    recipe: str = REFERENCE[1]
    """Of every framework but the reference itself."""
    stages: tuple[str, ...] = STAGES
    precisions: tuple[str, ...] = USUAL_PRECISIONS
    """For the stage of rounding."""
    size: str = USUAL_SIZE
    device: str = "cpu"
    steps: int = LEAST_STEPS
    """Of the stage of trajectories."""
    repeats: int = LEAST_REPEATS
    """Of the reference there."""
    seed: int = USUAL_SEED
    """Of the weights, the batches and the order of samples."""

    @property
    def name(self) -> str:
        """Of the folder of an unfinished check: the same options find it again."""
        return f"{self.workload}-{hashlib.sha256(str(self).encode()).hexdigest()[:8]}"

    @property
    def contestants(self) -> tuple[tuple[str, str], ...]:
        """(framework, recipe), the reference first."""
        return tuple(dict.fromkeys((REFERENCE, *((name, self.recipe) for name in self.frameworks))))

    @property
    def command(self) -> str:
        """That gives these options again."""
        return parity_command(
            workload=self.workload,
            frameworks=self.frameworks,
            recipe=self.recipe,
            stages=self.stages,
            precisions=self.precisions,
            device=self.device,
            size=self.size,
            steps=self.steps,
            seed=self.seed,
        )


def usable_frameworks(workload: str, recipe: str = REFERENCE[1], device: str = "cpu") -> tuple[str, ...]:
    """Those that the workload has with this recipe and that can use the device here, the reference's first."""
    card = load_card(workload)
    named = (name for name in card.frameworks if recipe in card.recipes_of.get(name, card.recipes))
    here = [name for name in named if frameworks().load(name).installed_version() is not None]
    return tuple(name for name in here if device == "cpu" or not frameworks().load(name).is_for_cpus_only())


def precisions_of(framework: str, device: str) -> tuple[str, ...]:
    """Those that the framework can train in: Paddle, for one, has no bf16 on a CPU."""
    return frameworks().load(framework).precisions_on(device)


def usable_precisions(names: tuple[str, ...], recipe: str, device: str) -> tuple[str, ...]:
    """Of the usual ones, those that another side than the reference has."""
    others = [name for name in names if (name, recipe) != REFERENCE]
    known = {precision for name in others for precision in precisions_of(name, device)}
    return tuple(precision for precision in USUAL_PRECISIONS if precision in known)


def check_options(options: ParityOptions) -> Card:
    """Refuses what cannot be checked."""
    card, machine = load_card(options.workload), read_machine()
    for name in dict.fromkeys((REFERENCE[0], *options.frameworks)):
        if name not in card.frameworks:
            framework, known = frameworks().load(name).summary, ", ".join(card.frameworks)
            raise InputError(f"{card.name} has no implementation in {framework}", hint=f"it has: {known}")
        require(name, machine)
    if options.recipe not in card.recipes:
        raise InputError(f"{card.name} has no recipe {options.recipe!r}", hint=f"it has: {', '.join(card.recipes)}")
    if options.size not in card.sizes:
        raise InputError(f"{card.name} has no size {options.size!r}", hint=f"it has: {', '.join(card.sizes)}")
    if len(options.contestants) < 2:
        raise InputError(
            "parity needs two sides",
            hint="name another framework, such as --frameworks torch,jax, or use --recipe fast",
        )
    _refuse_infeasible(options, card, machine)
    if ROUNDING in options.stages:
        _check_precisions(options)
    return card


def _refuse_infeasible(options: ParityOptions, card: Card, machine: Machine) -> None:
    """By the rules of `trainmark run`: recipes that a framework lacks, a GPU that is not there."""
    offer = offer_of(card)
    for cell in _cells(options):
        reason = why_not(cell, machine, Reach(), offer)
        if reason is not None:
            why, _, hint = reason.english.rpartition("; ")
            what = f"cannot check {cell.framework} {cell.recipe} on {cell.device}"
            raise InputError(what, why=why, hint=hint)


def _cells(options: ParityOptions) -> Iterator[Cell]:
    """One of each side, in fp32, which every stage but rounding needs."""
    for framework, recipe in options.contestants:
        yield Cell(
            workload=options.workload,
            framework=framework,
            recipe=recipe,
            precision="fp32",
            size=options.size,
            device=options.device,
            nodes=1,
            devices_per_node=1,
            batch_size_per_device=1,
            data=DataSource(),
            epochs=None,
            lr=None,
            until_target=(),
            seed=options.seed,
            repeat=1,
        )


def _check_precisions(options: ParityOptions) -> None:
    """Each must compare something, and each side must take part in something."""
    device = options.device
    known = [name for name in precisions_of(REFERENCE[0], device) if name in ROUNDING_LIMITS]
    if not options.precisions:
        raise InputError("--precision: names no precision", hint=f"use some of {', '.join(known)}")
    others = [name for name, recipe in options.contestants if (name, recipe) != REFERENCE]
    for precision in options.precisions:
        if precision not in known:
            raise InputError(
                f"--precision: PyTorch has no {precision!r} on {device}", hint=f"it has: {', '.join(known)}"
            )
        if not any(precision in precisions_of(name, device) for name in others):
            shared = [one for one in known if any(one in precisions_of(name, device) for name in others)]
            what = f"--precision: nothing can be compared in {precision!r} on {device}"
            raise InputError(what, why=f"{_join(others)} cannot train in it", hint=f"use {', '.join(shared)}")
    idle = [name for name in others if not set(options.precisions) & set(precisions_of(name, device))]
    if idle and options.stages == (ROUNDING,):
        what = f"--precision: nothing of {_join(idle)} can be compared on {device}"
        hint = f"leave out {_join(idle)}, or add one of {', '.join(precisions_of(idle[0], device))}"
        raise InputError(what, why=f"{_join(idle)} cannot train in {', '.join(options.precisions)}", hint=hint)


def _join(names: list[str]) -> str:
    return " and ".join(dict.fromkeys(names))
