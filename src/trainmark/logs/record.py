"""What one line of somebody's log tells: a record; and what the whole log tells of its run: facts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

RecordKind = Literal["step", "eval", "mark", "stated", "trace"]
Scope = Literal["device", "node", "global"]


@dataclass(frozen=True, kw_only=True)
class LogRecord:
    """One line. Numbers stand as they were printed; None where the line does not tell.

    Without slots: fields that are absent stay those of the class, so `new_record` makes one in a sixth of the time.
    """

    kind: RecordKind
    """`step`: speed of some iterations; `eval`: a metric; `mark`: a moment (test_begin, test_finish); `stated`: a speed
    that the log claims for the whole run; `trace`: a speed that the dialect does not count as a record."""
    step: int | None = None
    epoch: float | None = None
    seconds: float | None = None
    """Of one iteration."""
    rate: float | None = None
    """Samples (or tokens, ...) a second of `scope`."""
    scope: Scope | None = None
    """Of what `rate` speaks: one device, one node or all devices. None where it cannot be told."""
    samples: float | None = None
    """Of one iteration over all devices, where the line says so."""
    unit: str | None = None
    """What is counted: images, samples, sequences, tokens, words, clips, steps."""
    loss: float | None = None
    learning_rate: float | None = None
    time_s: float | None = None
    """When the line was printed, in seconds since 1970 as if its clock showed UTC: only differences mean something."""
    metric: str | None = None
    value: float | None = None
    name: str | None = None
    """Of a `mark` or a `stated` number, as the log calls it."""
    memory_bytes: int | None = None
    rank: int | None = None


def new_record(fields: dict[str, Any]) -> LogRecord:
    """As LogRecord(**fields), for the one place where millions are made."""
    record = object.__new__(LogRecord)
    record.__dict__.update(fields)
    return record


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a log, its path or a flag tells of the run; None where it does not."""

    model: str | None = None
    """The log's own name for it."""
    workload: str | None = None
    """Ours, where it is one of ours."""
    framework: str | None = None
    """`torch`, `paddle`, `tensorflow`, `mxnet`, `oneflow`."""
    devices: int | None = None
    """Of all nodes together."""
    nodes: int | None = None
    devices_per_node: int | None = None
    batch_size_per_device: int | None = None
    global_batch_size: int | None = None
    precision: str | None = None
    """`fp32`, `tf32`, `amp`, `bf16`, and other people's `fp16` and `pure_fp16`."""
    unit: str | None = None
    repeat: int | None = None
    machine: str | None = None
    """The accelerator."""
    num_train_samples: int | None = None
    steps_per_epoch: int | None = None
    wall_s: float | None = None
    """The whole run, as the log states it."""
    learning_rate: float | None = None
    is_tf32_off: bool | None = None

    def known(self) -> dict[str, Any]:
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}


FACT_NAMES = tuple(field.name for field in fields(Facts))


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One statement of a log about its run. Several may contradict each other; the strongest one counts."""

    name: str
    value: Any
    strength: int
    """3: measured or counted by the program that ran; 2: its command line or start-up message; 1: a printed config."""
    text: str
    """Where it stands, for a person."""
