"""The shapes of what `--json` prints, from which `docs/reference/schemas` is made and by which tests check it."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Interval = tuple[float, float]
Verdict = Literal["faster", "slower", "same", "inconclusive", "not_comparable"]


class Said(TypedDict):
    """A warning, a doubt or a reason."""

    code: str
    message: str
    params: dict[str, Any]


class Ratio(TypedDict):
    value: float | None
    ci95: Interval | None


class Throughput(TypedDict):
    value: float | None
    """None if it is too noisy to be a result."""
    unit: str
    scope: Literal["global"]
    ci95: Interval | None
    steps: int
    warmup_steps: int
    method: str
    spread: Interval | None
    doubts: list[Said]


class Pooled(Throughput):
    runs: int
    marked_runs: list[str]


class Watts(TypedDict):
    value: float
    ci95: Interval | None
    readings: int


class PowerUse(TypedDict):
    watts: Watts | None
    counters: int
    sampled_watts: float | None
    why_not_measured: str | None


class Energy(TypedDict):
    scope: Literal["device", "host"]
    samples_per_joule: float | None
    ci95: Interval | None
    device: NotRequired[PowerUse]
    host: NotRequired[PowerUse]


class Evaluated(TypedDict):
    step: int | None
    epoch: float | None
    time_s: float | None
    metric: str | None
    value: float | None


class Identity(TypedDict):
    work: str | None
    code: str | None
    machine: str | None
    commit: str | None
    dirty: bool | None
    changes: str | None
    branch: str | None
    script: str | None
    script_sha256: str | None
    framework: str | None
    versions: dict[str, Any]
    image: dict[str, Any] | None
    host: str | None
    gpus: list[str]
    time: str | None


class ThreeSpeeds(TypedDict):
    raw: float
    without_evaluation: float
    pure_step: float


class Exchange(TypedDict):
    exposed_s: float
    ci95: Interval | None
    step_s: float
    compute_s: float
    gradient_bytes: int
    allreduce_gb_per_s: float | None
    allreduce_bus_gb_per_s: float | None
    fraction: float


class Acceptance(TypedDict):
    because: str
    unix_s: float | None


class BrokenLaw(TypedDict):
    law: str
    message: str
    accepted: dict[str, Any] | None


COLUMN_TYPES: dict[str, Any] = {
    "records": int,
    "throughput": Throughput | None,
    "energy": Energy | None,
    "mfu": float | None,
    "median": float | None,
    "mean_of_rates": float | None,
    "last": float | None,
    "evals": list[Evaluated],
    "loss": list[tuple[float | None, float | None]],
    "time_to_train_s": float | None,
    "speeds": ThreeSpeeds | None,
    "communication": Exchange | None,
    "stated": dict[str, Any] | None,
    "identity": Identity,
    "warnings": list[Said],
    "marks": list[BrokenLaw],
    "admitted": bool,
    "pooled": Pooled | None,
}
"""Of the columns that are not a field of `RunRow` as it is, and of those found by comparing runs."""


class LineIdentity(TypedDict):
    work: str | None
    code: str | None
    machine: str | None


class PooledLine(Pooled):
    cell_id: str
    workload: str | None
    model: str | None
    identity: LineIdentity
    run_ids: list[str]


class ScalingCase(TypedDict):
    nodes: int | None
    devices: int
    batch_size_per_device: int | None
    runs: list[str]
    throughput: Throughput | None
    base: dict[str, Any] | None
    speedup: Ratio | None
    efficiency: Ratio | None
    marked_runs: list[str]
    missing: dict[str, str] | None
    lost_s: float | None
    lost_to: dict[str, Any] | None
    cause: Literal["communication", "compute", "rest"] | None
    why: str | None


class ScalingStudy(TypedDict):
    mode: Literal["weak", "strong", "unknown"]
    workload: str | None
    model: str | None
    dialect: str | None
    framework: str | None
    recipe: str | None
    precision: str | None
    size: str | None
    device: str | None
    data: str | None
    epochs: int | None
    machine: str | None
    batch_size_per_device: int | None
    global_batch_size: int | None
    base: dict[str, int | None]
    lines: list[ScalingCase]


class ComparedCell(TypedDict):
    cell: dict[str, Any]
    ratio: Ratio
    verdict: Verdict
    why: str
    why_code: str
    runs: list[int]
    more_runs: int | None
    unit: str | None
    a: dict[str, Any]
    b: dict[str, Any]
    spread_between_runs: float | None
    history_runs: int
    left_out: list[dict[str, Any]]
    doubts: list[dict[str, Any]]
    epochs_to_target: dict[str, Any] | None
    differences: list[dict[str, Any]]


class Comparison(TypedDict):
    schema: int
    answer: str
    a: dict[str, Any]
    b: dict[str, Any]
    tolerance: float
    comparisons: list[ComparedCell]
    geomean: dict[str, Any] | None
    missing: list[dict[str, Any]]
    differences: list[dict[str, Any]]


class GateFinding(TypedDict):
    metric: str | None
    status: str
    baseline: float | None
    now: float | None
    ratio: Ratio | None
    tolerance: float | None
    runs: list[int]
    spread: float | None
    why: Said


class GateCell(TypedDict):
    cell: dict[str, Any]
    status: str
    run_ids: list[str]
    notes: list[Said]
    findings: list[GateFinding]


class Gate(TypedDict):
    schema: int
    answer: str
    status: str
    exit_code: int
    cells: list[GateCell]


class GateUpdate(TypedDict):
    schema: int
    answer: str
    baseline: str
    is_written: bool
    changes: list[dict[str, Any]]
    refused: list[dict[str, Any]]


class GateReplay(TypedDict):
    schema: int
    answer: str
    cells: list[dict[str, Any]]


class PlannedCell(TypedDict):
    cell_id: str
    workload: NotRequired[str | None]
    skip: str | None
    done: bool
    estimate_s: float | None
    command: str


class Plan(TypedDict):
    schema: int
    suite: str | None
    cells: list[PlannedCell]
    total_s: float | None


class Listed(TypedDict):
    name: str
    summary: str
    origin: NotRequired[str]


class Listing(TypedDict, total=False):
    schema: int
    workloads: list[Listed]
    suites: list[Listed]
    engines: list[Listed]
    launchers: list[Listed]
    formats: list[Listed]
    dialects: list[Listed]
    protocols: list[Listed]
    exports: list[Listed]


class Command(TypedDict):
    argv: list[str]
    environment: dict[str, str]


class Commands(TypedDict):
    """Of `--launcher dry`."""

    schema: int
    commands: list[Command]


class ParityDocument(TypedDict):
    """What it has beside its entries."""

    schema: int
    workload: str
    card_version: int
    size: str
    device: str
    seed: int
    code: str
    answer: str
    holds: bool
    stored: str


class AnyDocument(TypedDict):
    """What every document has."""

    schema: int
