"""A run as the store knows it: the facts of its folder, the raw steps, and what an analyser made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trainmark.messages.message import Message

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """The raw numbers of a run, in order."""

    seconds: Floats
    """Of each step."""
    samples: Floats
    """Of each step, over all devices."""
    steps: Floats
    """Number of the last iteration of each step record; NaN where it is not told."""
    times: Floats
    """When each step record was made, in seconds since the first; NaN where it is not told."""
    loss_steps: Floats
    losses: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class RunRow:
    id: str
    cell_id: str
    suite: str | None
    source: str
    """`trainmark` for our own workloads, `command` for the user's own; for imported logs the file they come from."""
    dialect: str | None
    workload: str | None
    model: str | None
    framework: str | None
    recipe: str | None
    precision: str | None
    size: str | None
    device: str | None
    nodes: int | None
    devices: int | None
    """Of all nodes together."""
    batch_size_per_device: int | None
    data: str | None
    epochs: int | None
    seed: int | None
    repeat: int | None
    unit: str
    outcome: str | None
    """None while the run is going on."""
    reason: str
    """In English."""
    started_unix_s: float | None
    wall_s: float | None
    load_steps: Callable[[], Steps]
    """Called when the first of them is asked for: a table of a thousand runs needs none."""
    reason_code: str | None = None
    """Of the declaration in `trainmark.messages`; None in folders of older versions."""
    reason_params: dict[str, Any] = field(default_factory=dict)
    evals: tuple[dict[str, Any], ...] = ()
    warnings: tuple[dict[str, Any], ...] = ()
    """Each with code, message and params, as `Message.to_json` gives them."""
    peak_memory_bytes: int | None = None
    lr: float | None = None
    """The peak learning rate that was asked for; None: the recipe's, which `environment` has."""
    until_target: dict[str, float] = field(default_factory=dict)
    pauses: dict[str, float] = field(default_factory=dict)
    """Seconds in which no step ran, by what was done instead: `eval`, `checkpoint`."""
    resumed_from: str | None = None
    resumed_steps: tuple[int, ...] = ()
    """Numbers of the steps after which another process went on, which had to warm up anew."""
    asked: str | None = None
    """The command line that made it, as typed."""
    sweep: str | None = None
    """Id of the sweep it belongs to."""
    attempt: int | None = None
    """Which try of the same run in its sweep, from 1."""
    retry_of: str | None = None
    """The attempt that this one stands for: that one ended without an answer."""
    purpose: str | None = None
    """None: a measurement. `find-batch`: a probe of whether a batch fits, which no table shows."""
    num_records: int | None = None
    """Step records in the folder, also those without a speed; None in rows that were made by hand."""
    log: dict[str, Any] = field(default_factory=dict)
    """Of an imported log: sha256, scope, is_cumulative, what it states of itself, its target. Empty for our runs."""
    communication: dict[str, Any] | None = None
    """Times of steps beside steps without exchange, as the worker left them, or the reason why there are none."""
    machine: str | None = None
    """The accelerator, or the CPU where there is none."""
    environment: dict[str, Any] = field(default_factory=dict)
    folder_state: str | None = None
    """None where exit.json told the outcome. Otherwise the folder as it was when the outcome was judged from it."""
    reading_version: str | None = None
    """Which code read the folder."""
    analysis: dict[str, Any] | None = None
    """What the steps give, in numbers and few; None where nobody has analysed them yet."""
    analysis_version: str | None = None
    load_document: Callable[[], str | None] = lambda: None
    """What `--json` prints of the run, as text; None where `analysis` is."""

    @property
    def why(self) -> Message:
        """Why the run ended as it did, for any language."""
        facts = {"reason_code": self.reason_code, "reason_params": self.reason_params}
        return Message.from_reason({"reason": self.reason, **facts})

    @cached_property
    def _steps(self) -> Steps:
        return self.load_steps()

    @property
    def seconds(self) -> Floats:
        return self._steps.seconds

    @property
    def samples(self) -> Floats:
        return self._steps.samples

    @property
    def steps(self) -> Floats:
        return self._steps.steps

    @property
    def times(self) -> Floats:
        return self._steps.times

    @property
    def loss_steps(self) -> Floats:
        return self._steps.loss_steps

    @property
    def losses(self) -> Floats:
        return self._steps.losses


@dataclass(frozen=True, kw_only=True)
class Derived:
    """What an analyser makes of a run; the index keeps it beside the steps."""

    analysis: dict[str, Any]
    document: str


@dataclass(frozen=True, kw_only=True)
class Analyser:
    """Comes from a layer above; the store calls it once for each run."""

    version: str
    """Another one for an analyser that would say something else."""
    analyse: Callable[[RunRow], Derived]
