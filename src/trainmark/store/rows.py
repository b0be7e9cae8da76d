"""A run in the store: the facts of its folder, its raw steps, and what an analyser derived from them.

A field of `RunRow` is a column of the index; `store/columns.py` takes name and type from here.
"""

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


TELEMETRY = (
    "unix_s",
    "gpu_power_w",
    "gpu_sm_mhz",
    "gpu_temperature_c",
    "gpu_memory_used_bytes",
    "gpu_utilisation_percent",
    "process_cores",
    "process_rss_bytes",
)
"""The columns of `Steps.telemetry`."""


def _nothing() -> Floats:
    import numpy as np

    return np.empty(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """The raw numbers of a run, one per step record, in order."""

    seconds: Floats
    samples: Floats
    """Over all devices."""
    steps: Floats
    """Number of the last iteration of the record; NaN if unknown."""
    times: Floats
    """When the record was made, in seconds since the first; NaN if unknown."""
    loss_steps: Floats
    losses: Floats
    rounding: Floats
    """Half of the last printed digit of each record, in its seconds. Empty if a clock measured them."""
    printed_rates: Floats
    """Samples per second of each record as a log prints it, over all devices. Empty for runs that were measured. There
    may be more of these than `seconds`: a mean since the start is printed often and measures only its differences."""
    stamps: Floats = field(default_factory=_nothing)
    """When each step was recorded, by the time of day; NaN or empty if unknown."""
    paused: Floats = field(default_factory=_nothing)
    """Three numbers for each evaluation and checkpoint: the step it follows, its begin by the time of day, seconds."""
    telemetry: Floats = field(default_factory=_nothing)
    """Of rank 0: `len(TELEMETRY)` numbers for each sample, NaN where one was not read."""
    energy_readings: Floats = field(default_factory=_nothing)
    """Three numbers for each reading: the place of its counter in `RunRow.energy`, the time of day, joules."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunRow:
    id: str
    cell_id: str
    suite: str | None
    source: str
    """`trainmark` for our own workloads, `command` for a user's command, the path of the file for an imported log."""
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
    """Over all nodes."""
    batch_size_per_device: int | None
    data: str | None
    epochs: int | None
    seed: int | None
    repeat: int | None
    unit: str
    outcome: str | None
    """None while it is running."""
    reason: str
    """In English."""
    started_unix_s: float | None
    wall_s: float | None
    load_steps: Callable[[], Steps]
    """Called on first use: a table of a thousand runs needs no steps."""
    witness: str | None = None
    """What the result rests on: `observer`, `mark`, `log` or `clock`; None for our own workloads."""
    witnesses: dict[str, Any] = field(default_factory=dict)
    """Throughput by each witness over the same steps, with its `unit`. Empty where there is only one."""
    reason_code: str | None = None
    """Code of the declaration in `trainmark.messages`; None in folders of older versions."""
    reason_params: dict[str, Any] = field(default_factory=dict)
    evals: tuple[dict[str, Any], ...] = ()
    warnings: tuple[dict[str, Any], ...] = ()
    """Each with code, message and params, as `Message.to_json` gives them."""
    peak_memory_bytes: int | None = None
    stamped_s: float | None = None
    """Between the first step record and the last, by the time of day; None in logs, whose stamps are in `times`."""
    first_step_s: float | None = None
    """From the start of the run until its first step was done: imports, data, compilation. None if unknown."""
    workload_version: int | None = None
    """Of the workload's card; None for commands, imported logs and older versions."""
    lr: float | None = None
    """The peak learning rate that the user set; None: that of the recipe, which is in `environment`."""
    until_target: dict[str, float] = field(default_factory=dict)
    pauses: dict[str, float] = field(default_factory=dict)
    """Seconds without steps, by cause: `eval`, `checkpoint`."""
    resumed_from: str | None = None
    resumed_steps: tuple[int, ...] = ()
    """Numbers of the steps after which a new process resumed, which had to warm up again."""
    asked: str | None = None
    """The command line that started it, as typed."""
    sweep: str | None = None
    """Id of the sweep it belongs to."""
    attempt: int | None = None
    """Number of the attempt of the same run in its sweep, from 1."""
    retry_of: str | None = None
    """Id of the earlier attempt that this one replaces."""
    purpose: str | None = None
    """None: a measurement. `find-batch`: a probe whether a batch fits, which no table shows."""
    num_records: int | None = None
    """Number of step records in the folder, with or without a speed; None in rows made by tests."""
    log: dict[str, Any] = field(default_factory=dict)
    """Of an imported log: sha256, scope, what its numbers are, the numbers that it states. Empty for our runs."""
    communication: dict[str, Any] | None = None
    """Times of steps and of steps without gradient exchange, as recorded, or the reason why there are none."""
    energy: dict[str, Any] = field(default_factory=dict)
    """`counters`: kind (`device` or `host`) and name of each; `missing`: the reasons by kind. Empty: not recorded."""
    machine: str | None = None
    """Name of the accelerator, or of the CPU if there is none."""
    environment: dict[str, Any] = field(default_factory=dict)
    accepted: tuple[dict[str, Any], ...] = ()
    """Laws that the run breaks and a person accepted: law, because, unix_s; see `runfolder/acceptance.py`."""
    folder_state: str | None = None
    """None if exit.json has the outcome. Otherwise the state of the folder from which the outcome was derived."""
    folder_stamp: int | None = None
    """When a file of the folder was last added, replaced or removed, in ns; it is read again when this changes."""
    store: str | None = None
    """Host and path of the store; in a shared index it tells whose the run is."""
    reading_version: str | None = None
    """Version of the code that read the folder."""
    analysis: dict[str, Any] | None = None
    """A few numbers derived from the steps; None if not analysed yet."""
    powers: dict[str, Any] = field(default_factory=dict)
    """Derived from the energy counters, by kind of counter."""
    origin: tuple[str | None, ...] = ()
    """Derived from the environment: what tables ask of every run. Empty if not analysed yet."""
    analysis_version: str | None = None
    load_document: Callable[[], str | None] = lambda: None
    """Loads the text that `--json` prints for the run; None if `analysis` is None."""

    @property
    def why(self) -> Message:
        """Why the run ended as it did, for any language."""
        facts = {"reason_code": self.reason_code, "reason_params": self.reason_params}
        return Message.from_reason({"reason": self.reason, **facts})

    @cached_property
    def found(self) -> dict[str, Any]:
        """What was found out about this row, by name: several parts of an output ask for the same."""
        return {}

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

    @property
    def rounding(self) -> Floats:
        return self._steps.rounding

    @property
    def printed_rates(self) -> Floats:
        return self._steps.printed_rates

    @property
    def stamps(self) -> Floats:
        return self._steps.stamps

    @property
    def paused(self) -> Floats:
        """A row for each pause: the step it follows, its begin by the time of day, seconds."""
        return self._steps.paused.reshape(-1, 3)

    @property
    def telemetry(self) -> Floats:
        """A row for each sample, with the columns of `TELEMETRY`."""
        return self._steps.telemetry.reshape(-1, len(TELEMETRY))

    @property
    def energy_readings(self) -> Floats:
        """A row for each reading: place of the counter, time of day, joules."""
        return self._steps.energy_readings.reshape(-1, 3)

    @property
    def rates(self) -> Floats:
        """Of each record as printed, or as measured: what older reports aggregate."""
        return self.printed_rates if len(self.printed_rates) else self.samples / self.seconds


@dataclass(frozen=True, kw_only=True)
class Derived:
    """What an analyser derives from a run; the index keeps it."""

    analysis: dict[str, Any]
    document: str
    powers: dict[str, Any] = field(default_factory=dict)
    origin: tuple[str | None, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Analyser:
    """Comes from a layer above; the store calls it once per run."""

    version: str
    """Changes whenever the analyser would give another answer."""
    analyse: Callable[[RunRow], Derived]
