"""The words of `trainmark parity`: of a check that is to be repeated, and of one that would prove two runs equal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from trainmark.analyse.parity import ROUNDING_LIMITS
from trainmark.errors import InputError
from trainmark.frameworks import frameworks
from trainmark.messages.message import Message
from trainmark.messages.parity import parity_no_precision, parity_recipes_differ
from trainmark.runfolder.parity import (
    LEAST_STEPS,
    MATHEMATICS,
    REFERENCE,
    ROUNDING,
    STAGES,
    TRAJECTORY,
    USUAL_SEED,
    WORK,
)
from trainmark.store.rows import RunRow

USUAL_PRECISIONS = ("fp32", "bf16")
USUAL_SIZE = "small"
_FOR_ALL = ("NVIDIA_TF32", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")
"""Prefixes of variables that can change what any framework computes."""
_HARMLESS = re.compile(r"(?i:mem|alloc|platform)")
"""About memory or the choice of device: they change no result."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """A stage that two runs must have passed."""

    stage: str
    precision: str | None = None
    """Only of rounding."""
    device: str | None = None
    """None for mathematics, which is float64 on the CPU and holds for every device."""

    @property
    def name(self) -> str:
        return f"{self.stage} in {self.precision}" if self.precision else self.stage


def needs_of(one: RunRow, other: RunRow) -> list[Need]:
    """In the order of the stages; each run counts with its own precision and device."""
    devices = list(dict.fromkeys(str(row.device) for row in (one, other)))
    rounded = dict.fromkeys((str(row.precision), str(row.device)) for row in (one, other))
    return [
        Need(stage=MATHEMATICS),
        *(Need(stage=ROUNDING, precision=precision, device=device) for precision, device in rounded),
        *(Need(stage=stage, device=device) for stage in (TRAJECTORY, WORK) for device in devices),
    ]


def needs_on(device: str, names: Sequence[str]) -> list[Need]:
    """Of a comparison of these frameworks on this device, in each of the usual precisions that all of them have."""
    usual = [one for one in USUAL_PRECISIONS if all(one in _precisions(name, device) for name in names)]
    return [
        Need(stage=MATHEMATICS),
        *(Need(stage=ROUNDING, precision=precision, device=device) for precision in usual),
        *(Need(stage=stage, device=device) for stage in (TRAJECTORY, WORK)),
    ]


def why_no_check(one: RunRow, other: RunRow) -> Message | None:
    """None if `trainmark parity` can put these two against each other, in their precisions and on their devices."""
    sides = {(str(row.framework), str(row.recipe)) for row in (one, other)}
    if len({recipe for _, recipe in sides - {REFERENCE}}) > 1:
        return parity_recipes_differ(one=str(one.recipe), other=str(other.recipe))
    names = dict.fromkeys((REFERENCE[0], *(str(row.framework) for row in (one, other))))
    for row in (one, other):
        for name in names:
            if row.precision not in _precisions(name, str(row.device)):
                return parity_no_precision(framework=name, precision=str(row.precision), device=str(row.device))
    return None


def _precisions(framework: str, device: str) -> Collection[str]:
    """Of a framework of a plugin that is not here, nothing is known: the check itself will refuse it."""
    try:
        known = frameworks().load(framework).precisions_on(device)
    except InputError:
        return ROUNDING_LIMITS
    return [name for name in known if name in ROUNDING_LIMITS]


def deciding_variables(variables: Mapping[str, str], framework: str) -> dict[str, str]:
    """Of those that a run or a check records, the ones that can change what this framework computes."""
    try:
        own = frameworks().load(framework).settings
    except InputError:
        own = ()
    names = [name for name in sorted(variables) if name.startswith((*_FOR_ALL, *own)) and not _HARMLESS.search(name)]
    return {name: variables[name] for name in names if variables[name]}


def command_for(
    one: RunRow,
    other: RunRow,
    needs: Sequence[Need],
    *,
    size: str = USUAL_SIZE,
    steps: int = LEAST_STEPS,
    seed: int = USUAL_SEED,
    store: str | None = None,
) -> str:
    """That meets these needs, as far as they are of one device: another device is another command."""
    device = next((need.device for need in needs if need.device is not None), "cpu")
    wanted = [need for need in needs if need.device in (None, device)]
    sides = {(str(row.framework), str(row.recipe)): None for row in (one, other)}
    recipe = next((recipe for side in sides if side != REFERENCE for recipe in side[1:]), REFERENCE[1])
    named = [name for name, own in sides if own == recipe]
    if recipe == REFERENCE[1]:
        named = list(dict.fromkeys((REFERENCE[0], *named)))
    return parity_command(
        workload=str(one.workload),
        frameworks=named,
        recipe=recipe,
        stages={need.stage for need in wanted},
        precisions=[need.precision for need in wanted if need.precision],
        device=device,
        size=size,
        steps=steps,
        seed=seed,
        store=store,
    )


def parity_command(
    *,
    workload: str,
    frameworks: Sequence[str],
    recipe: str = REFERENCE[1],
    stages: Collection[str] = STAGES,
    precisions: Sequence[str] = (),
    device: str = "cpu",
    size: str = USUAL_SIZE,
    steps: int = LEAST_STEPS,
    seed: int = USUAL_SEED,
    store: str | None = None,
) -> str:
    """What is usual is left out."""
    words = ["trainmark", "parity", workload, "--frameworks", ",".join(frameworks)]
    if recipe != REFERENCE[1]:
        words += ["--recipe", recipe]
    if set(stages) != set(STAGES):
        words += ["--stages", ",".join(stage for stage in STAGES if stage in stages)]
    if ROUNDING in stages and precisions and set(precisions) != set(USUAL_PRECISIONS):
        words += ["--precision", ",".join(dict.fromkeys(precisions))]
    if device != "cpu":
        words += ["--device", device]
    if size != USUAL_SIZE:
        words += ["--size", size]
    if TRAJECTORY in stages and steps != LEAST_STEPS:
        words += ["--steps", str(steps)]
    if seed != USUAL_SEED:
        words += ["--seed", str(seed)]
    if store is not None:
        words += ["--store", store]
    return shlex.join(words)  # what a stranger's run folder says may be no name
