"""run.json as types: what a run was asked to do. The controller and `import` write it; worker and store read it.

Reading is lenient, since a run folder may be old, damaged or from somebody else: a value of the wrong type is None.
Keys that this version does not know are kept, so that rewriting a file does not lose them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from trainmark.runfolder.files import RUN_FILE, SCHEMA, Json, read_json, write_json
from trainmark.runfolder.values import as_bool, as_float, as_int, as_object, as_text


@dataclass(frozen=True, kw_only=True)
class WorkloadCell:
    """A cell of our own workloads with all that the worker needs. `spec.cell.Cell` describes the fields."""

    workload: str
    framework: str
    recipe: str
    precision: str
    size: str
    device: str
    nodes: int
    devices_per_node: int
    batch_size_per_device: int
    data: str
    epochs: int | None
    lr: float | None
    until_target: Mapping[str, float]
    seed: int
    repeat: int
    weights: str | None = None


@dataclass(frozen=True, kw_only=True)
class CellRecord:
    """What was measured, as far as it is known: a command or an imported log does not tell everything."""

    workload: str | None = None
    framework: str | None = None
    recipe: str | None = None
    precision: str | None = None
    size: str | None = None
    device: str | None = None
    nodes: int | None = None
    devices_per_node: int | None = None
    batch_size_per_device: int | None = None
    data: str | None = None
    epochs: int | None = None
    lr: float | None = None
    until_target: Mapping[str, float] | None = None
    seed: int | None = None
    repeat: int | None = None
    weights: str | None = None
    """SHA-256 of the file that the training starts from."""
    devices: int | None = None
    """Of all nodes together, where a log tells only that."""
    command: tuple[str, ...] | None = None
    """The words of `trainmark run -- CMD`, placeholders included."""

    @classmethod
    def from_json(cls, value: Any) -> CellRecord:
        given: Json = value if isinstance(value, dict) else {}
        command = given.get("command")
        texts: dict[str, Any] = {name: as_text(given.get(name)) for name in _CELL_TEXTS}
        texts["precision"] = _OLDER_PRECISIONS.get(texts["precision"], texts["precision"])
        integers: dict[str, Any] = {name: as_int(given.get(name)) for name in _CELL_INTEGERS}
        return cls(
            **texts,
            **integers,
            lr=as_float(given.get("lr")),
            until_target=_numbers(given.get("until_target")),
            command=tuple(as_text(word) or "" for word in command) if isinstance(command, list) else None,
        )

    def to_json(self) -> Json:
        """All fields of a cell, null where unknown; `devices`, `command` and `weights` only where they are known."""
        found: Json = {item.name: getattr(self, item.name) for item in fields(self)}
        found["until_target"] = None if self.until_target is None else dict(self.until_target)
        found["command"] = None if self.command is None else list(self.command)
        return {name: value for name, value in found.items() if value is not None or name not in _ONLY_IF_KNOWN}

    @property
    def num_devices(self) -> int | None:
        """Of all nodes together."""
        product = self.nodes * self.devices_per_node if self.nodes and self.devices_per_node else self.devices
        return as_int(product)

    def workload_cell(self) -> WorkloadCell:
        """With all that a worker needs; a ValueError names what is missing."""
        found = {item.name: getattr(self, item.name) for item in fields(WorkloadCell)}
        missing = [name for name, value in found.items() if value is None and name not in _MAY_BE_NULL]
        if missing:
            raise ValueError(f"{RUN_FILE}: missing or invalid in cell: {', '.join(missing)}")
        return WorkloadCell(**{**found, "until_target": self.until_target or {}})


_CELL_TEXTS = ("workload", "framework", "recipe", "precision", "size", "device", "data", "weights")
_OLDER_PRECISIONS = {"pure_fp16": "fp16"}
"""As older versions called it in imported logs."""
_CELL_INTEGERS = ("nodes", "devices_per_node", "batch_size_per_device", "epochs", "seed", "repeat", "devices")
_MAY_BE_NULL = ("epochs", "lr", "until_target", "weights")
_ONLY_IF_KNOWN = ("devices", "command", "weights")
"""Left out, so that cells without them keep the identity they had in older versions."""


def _numbers(value: Any) -> dict[str, float] | None:
    if not isinstance(value, dict):
        return None
    known = {name: as_float(number) for name, number in as_object(value).items()}
    return {name: number for name, number in known.items() if number is not None}


@dataclass(frozen=True, kw_only=True)
class MeasureRecord:
    """How long to measure, as `spec.suite.Measure` describes it. A command has at most the limits of silence."""

    target_ci: float | None = None
    min_seconds: float | None = None
    max_seconds: float | None = None
    max_steps: int | None = None
    timeout_s: float | None = None
    hang_least_s: float | None = None
    hang_factor: float | None = None

    @classmethod
    def from_json(cls, value: Any) -> MeasureRecord:
        given: Json = value if isinstance(value, dict) else {}
        names = (item.name for item in fields(cls) if item.name != "max_steps")
        return cls(max_steps=as_int(given.get("max_steps")), **{name: as_float(given.get(name)) for name in names})

    def to_json(self) -> Json:
        found = asdict(self)
        is_command = self.max_seconds is None
        return {name: value for name, value in found.items() if value is not None or not is_command}


@dataclass(frozen=True, kw_only=True)
class LogFacts:
    """What an imported log, or the output of a command, says about its own numbers."""

    confidence: float | None = None
    scope: str | None = None
    covers: str | None = None
    has_seconds: bool | None = None
    """Whether it prints how long its steps took, and not only a rate; None in folders of older versions."""
    is_cumulative: bool = False
    """In folders of older versions: records are means since the start as printed, and not differences of them."""
    meaning: str | None = None
    """What a printed time or rate is: `step`, `window`, `since-run`, `since-epoch`, `median`, `smoothed`, `whole`."""
    basis: str | None = None
    """What the seconds of the records rest on: `printed`, `differences` of running totals, or the `clock`."""
    is_generic: bool = False
    """Read by a generic dialect: what its numbers count is a guess."""
    rates: Json | None = None
    """Of a log with very many records: median, mean and last of the printed rates, over all devices."""
    is_tf32_off: bool | None = None
    stated: Json = field(default_factory=dict)
    """Summaries printed in the log, by name: value and unit."""
    target: Json | None = None
    time_to_target_s: float | None = None

    @classmethod
    def from_json(cls, value: Any) -> LogFacts:
        given = as_object(value)
        return cls(
            confidence=as_float(given.get("confidence")),
            scope=as_text(given.get("scope")),
            covers=as_text(given.get("covers")),
            has_seconds=as_bool(given.get("has_seconds")),
            is_cumulative=bool(given.get("is_cumulative")),
            meaning=as_text(given.get("meaning")),
            basis=as_text(given.get("basis")),
            is_generic=bool(given.get("is_generic")),
            rates=as_object(given.get("rates")) or None,
            is_tf32_off=as_bool(given.get("is_tf32_off")),
            stated=as_object(given.get("stated")),
            target=as_object(given.get("target")) or None,
            time_to_target_s=as_float(given.get("time_to_target_s")),
        )

    def to_json(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Which file was imported, and how: the same file with the same options is not imported twice."""

    sha256: str
    num_bytes: int
    reader: int | None = None
    """Version of the code that read it."""
    given: Json = field(default_factory=dict)
    """Facts from the command line."""
    pattern: str | None = None
    """SHA-256 of the file of patterns, where one was given."""

    @classmethod
    def from_json(cls, value: Json) -> Provenance | None:
        sha256, num_bytes = as_text(value.get("sha256")), as_int(value.get("num_bytes"))
        if sha256 is None or num_bytes is None:
            return None
        return cls(
            sha256=sha256,
            num_bytes=num_bytes,
            reader=as_int(value.get("reader")),
            given=as_object(value.get("given")),
            pattern=as_text(value.get("pattern")),
        )


@dataclass(frozen=True, kw_only=True)
class RunDocument:
    cell: CellRecord
    cell_id: str = ""
    """Runs of the same cell, whichever repeat, have the same."""
    suite: str | None = None
    source: str | None = None
    """None for our own workloads, `command` for `run -- CMD`, otherwise the imported file."""
    dialect: str | None = None
    """The log format that was read, or `mark` for a script that marks its steps."""
    witness: str | None = None
    """Of a finished command, what its result rests on: `mark`, `observer`, `log` or `clock`."""
    witnesses: Json | None = None
    """Throughput by each witness over the same steps, with its `unit`; null where a witness says nothing."""
    observer: Json | None = None
    """What the observer saw of a command, or why it saw nothing."""
    unit: str = "samples"
    model: str | None = None
    workload_version: int | None = None
    """Of the workload's card; None for a command, and in folders of older versions, whose workloads had version 1."""
    measure: MeasureRecord | None = None
    eval_every: int | None = None
    """Epochs from one evaluation to the next."""
    memory_limit_bytes: int | None = None
    """For each process."""
    purpose: str | None = None
    """None: a measurement. `find-batch`: a probe whether a batch fits."""
    find_batch: Json | None = None
    """How the batch size was found; for people to read."""
    image: str | None = None
    """The container image as the user named it: NAME or NAME@sha256:DIGEST."""
    weights: Json | None = None
    """The file that the training starts from: `path` and `sha256`."""
    asked: str | None = None
    """The command line."""
    sweep: str | None = None
    attempt: int | None = None
    """Which attempt at the same run of its sweep, from 1."""
    retry_of: str | None = None
    resumed_from: str | None = None
    """The run whose checkpoint a training starts from."""
    created_unix_s: float | None = None
    log: LogFacts | None = None
    provenance: Provenance | None = None
    """Of an imported log."""
    others: Json = field(default_factory=dict)
    """Keys that this version does not know."""

    @classmethod
    def from_json(cls, value: Any) -> RunDocument | None:
        """None for what does not describe a run."""
        if not isinstance(value, dict) or not isinstance(value.get("cell"), dict):
            return None
        texts: dict[str, Any] = {name: as_text(value.get(name)) for name in _TEXTS}
        integers: dict[str, Any] = {name: as_int(value.get(name)) for name in _INTEGERS}
        has_log, has_measure = isinstance(value.get("log"), dict), isinstance(value.get("measure"), dict)
        return cls(
            **texts,
            **integers,
            cell=CellRecord.from_json(value["cell"]),
            cell_id=as_text(value.get("cell_id")) or "",
            unit=as_text(value.get("unit")) or "samples",
            measure=MeasureRecord.from_json(value["measure"]) if has_measure else None,
            find_batch=as_object(value.get("find_batch")) or None,
            witnesses=as_object(value.get("witnesses")) or None,
            observer=as_object(value.get("observer")) or None,
            weights=as_object(value.get("weights")) or None,
            created_unix_s=as_float(value.get("created_unix_s")),
            log=LogFacts.from_json(value["log"]) if has_log else None,
            provenance=Provenance.from_json(value),
            others={name: kept for name, kept in value.items() if name not in _KNOWN},
        )

    def to_json(self) -> Json:
        """What nobody said is left out, except for the keys that every run.json has."""
        plain = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in _NESTED}
        known = {name: value for name, value in plain.items() if value is not None or name in _ALWAYS}
        nested = {
            "measure": self.measure.to_json() if self.measure is not None else None,
            "log": self.log.to_json() if self.log is not None else None,
        }
        return {
            "schema": SCHEMA,
            "cell": self.cell.to_json(),
            **known,
            **{name: value for name, value in nested.items() if value is not None},
            **(asdict(self.provenance) if self.provenance is not None else {}),
            **self.others,
        }

    @classmethod
    def read(cls, folder: Path) -> RunDocument | None:
        return cls.from_json(read_json(folder / RUN_FILE))

    def write(self, folder: Path) -> None:
        write_json(folder / RUN_FILE, self.to_json())


_TEXTS = ("suite", "source", "dialect", "witness", "model", "purpose", "image", "asked", "sweep", "retry_of",
    "resumed_from")  # fmt: skip
_INTEGERS = ("workload_version", "eval_every", "memory_limit_bytes", "attempt")
_NESTED = ("cell", "measure", "log", "provenance", "others")
_ALWAYS = ("cell_id", "suite", "unit", "model")
_KNOWN = frozenset(
    {"schema", *(item.name for item in (*fields(RunDocument), *fields(Provenance)))} - {"others", "provenance"}
)
