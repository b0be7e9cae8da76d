"""Records (from one line of a log) and facts (from the whole log)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

RecordKind = Literal["step", "eval", "moment", "stated", "trace", "section"]
Scope = Literal["device", "node", "global"]


@dataclass(frozen=True, kw_only=True)
class LogRecord:
    """One line, with numbers as printed; None if the line does not have one.

    No slots: absent fields fall back to the class defaults, which makes `new_record` six times faster.
    """

    kind: RecordKind
    """`step`: speed of some iterations; `eval`: a metric; `moment`: test_begin, test_finish; `stated`: a speed
    that the log states for the whole run; `trace`: a speed that the dialect does not count as a record; `section`: a
    heading after which steps belong to the epoch it names, or to an evaluation."""
    step: int | None = None
    epoch: float | None = None
    seconds: float | None = None
    """Of one iteration."""
    rate: float | None = None
    """Samples (or tokens, ...) per second of `scope`."""
    scope: Scope | None = None
    """What `rate` refers to: one device, one node or all devices. None if unknown."""
    samples: float | None = None
    """Of one iteration over all devices, if printed."""
    mean_s: float | None = None
    """Seconds of an iteration, mean since the start of the run or of the epoch, printed beside `seconds` or `rate`."""
    total_s: float | None = None
    """Seconds since the start of the run or of the epoch, if printed."""
    half_digit: float | None = None
    """Half of the last printed digit of `seconds` or `rate`, relative to its value."""
    total_half_digit: float | None = None
    """Half of the last printed digit of `mean_s` or `total_s`, in seconds."""
    unit: str | None = None
    """What is counted: images, samples, sequences, tokens, words, clips, steps."""
    loss: float | None = None
    learning_rate: float | None = None
    time_s: float | None = None
    """When the line was printed, in seconds since 1970 read as UTC. Only differences are meaningful."""
    metric: str | None = None
    value: float | None = None
    name: str | None = None
    """Name of a `moment` or `stated` number in the log; `train` or `eval` for a `section`."""
    of: int | None = None
    """The total of a progress bar, which tells bars of different loops apart."""
    is_last: bool = False
    """The last line of its epoch. What follows without a heading is an evaluation."""
    includes_eval: bool = False
    """Its time covers an evaluation too, and the line does not say how long that took."""
    memory_bytes: int | None = None
    rank: int | None = None


def new_record(fields: dict[str, Any]) -> LogRecord:
    """Same as LogRecord(**fields), faster; a log may have millions."""
    record = object.__new__(LogRecord)
    record.__dict__.update(fields)
    return record


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a log, its path or an option says about the run; None if unknown."""

    model: str | None = None
    """The model name in the log."""
    workload: str | None = None
    """Our name for it, if it is one of our workloads."""
    framework: str | None = None
    """`torch`, `paddle`, `tensorflow`, `mxnet`, `oneflow`."""
    devices: int | None = None
    """Of all nodes together."""
    nodes: int | None = None
    devices_per_node: int | None = None
    batch_size_per_device: int | None = None
    global_batch_size: int | None = None
    precision: str | None = None
    """`fp32`, `tf32`, `amp`, `bf16` or `fp16` (pure half precision: weights in fp16 too). Before facts are merged also
    `SIXTEEN_BITS` of a log and `PURE_FP16` of a path, whose `fp16` may be either kind."""
    unit: str | None = None
    repeat: int | None = None
    machine: str | None = None
    """The accelerator."""
    num_train_samples: int | None = None
    steps_per_epoch: int | None = None
    wall_s: float | None = None
    """Of the whole run, as stated in the log."""
    learning_rate: float | None = None
    samples_per_step: int | None = None
    """Of all devices, in `unit`, if that is not a batch: tokens per iteration."""
    is_tf32_off: bool | None = None

    def known(self) -> dict[str, Any]:
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}


SIXTEEN_BITS = "16-bit"
"""The precision of a log that says fp16 and not which kind: AMP or pure half precision."""
PURE_FP16 = "pure_fp16"
"""What other people call pure half precision, in paths of logs."""
FACT_NAMES = tuple(field.name for field in fields(Facts))


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One statement in a log about its run. Claims may contradict each other; the strongest counts."""

    name: str
    value: Any
    strength: int
    """3: measured or counted by the program that ran; 2: its command line or start-up message; 1: a printed config."""
    text: str
    """The line it comes from, for a person."""
