"""A cell: one point of a sweep, complete and frozen. Two cells with equal fields measure the same thing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from trainmark.runfolder.document import CellRecord

PRECISIONS = ("fp32", "tf32", "amp", "bf16", "fp16")
DEVICES = ("cpu", "cuda")
DataKind = Literal["synthetic", "cached", "real"]


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Where samples come from: `synthetic`, `cached:DIR` (decoded once) or `DIR` (the real pipeline)."""

    kind: DataKind = "synthetic"
    path: str | None = None

    @classmethod
    def parse(cls, text: str) -> DataSource:
        if text == "synthetic":
            return cls()
        prefix, _, rest = text.partition(":")
        if prefix == "cached":
            return cls(kind="cached", path=rest)
        return cls(kind="real", path=text)

    def from_here(self) -> DataSource:
        """With an absolute path: the same relative path means another data set elsewhere. Links are kept."""
        return self if self.path is None else replace(self, path=str(Path(self.path).absolute()))

    def __str__(self) -> str:
        if self.kind == "cached":
            return f"cached:{self.path}"
        return self.path or self.kind


@dataclass(frozen=True, kw_only=True)
class StartWeights:
    """A file of weights to start from. What is measured depends on its content, not on where it is."""

    path: str
    sha256: str | None = None
    """None: not read yet."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    workload: str
    """What is trained: see `trainmark list workloads`."""
    framework: str
    """One that the workload supports, such as `torch`."""
    recipe: str
    """`reference`: as the original code; `fast`: the same mathematics with every allowed optimisation."""
    precision: str
    """`fp32` (strict, TF32 off), `tf32`, `amp` (fp16 with a loss scaler), `bf16`, or `fp16` (weights in fp16 too)."""
    size: str
    """`full`: the input of the recipe; `small`: a reduced input for a CPU. Never compared with each other."""
    device: str
    """`cpu` or `cuda`."""
    nodes: int
    devices_per_node: int
    batch_size_per_device: int
    data: DataSource
    epochs: int | None
    """None: measure speed until it is precise enough; a number: train that many epochs, with evaluations."""
    lr: float | None
    """Peak learning rate; None: that of the recipe, scaled with the global batch by its rule."""
    until_target: tuple[tuple[str, float], ...]
    """Metrics and values that end the training once all are reached; empty: train all epochs."""
    seed: int
    repeat: int
    """Number of the repeat, from 1."""
    weights: StartWeights | None = None
    """None: the workload's own random ones."""

    @property
    def is_training(self) -> bool:
        """Trains for some epochs, with evaluations; otherwise it measures speed until that is precise enough."""
        return self.epochs is not None

    @property
    def num_devices(self) -> int:
        return self.nodes * self.devices_per_node

    @property
    def global_batch_size(self) -> int:
        return self.num_devices * self.batch_size_per_device

    @property
    def label(self) -> str:
        """For the run id."""
        return self.workload

    @property
    def title(self) -> str:
        devices = f"{self.nodes} × {self.devices_per_node} {self.device}"
        what = f"{self.workload} {self.framework} {self.recipe} {self.precision} {self.size}"
        return f"{what}, {devices}, batch {self.batch_size_per_device}, repeat {self.repeat}"

    @classmethod
    def from_json(cls, value: Any) -> Cell:
        """The inverse of `to_json`; a ValueError names what is missing or invalid."""
        found = asdict(CellRecord.from_json(value).workload_cell())
        sha256 = found["weights"]
        return cls(
            **{
                **found,
                "data": DataSource.parse(found["data"]),
                "until_target": tuple(found["until_target"].items()),
                "weights": None if sha256 is None else StartWeights(path="", sha256=sha256),
            }
        )

    @property
    def record(self) -> CellRecord:
        """As run.json holds it."""
        sha256 = None if self.weights is None else self.weights.sha256
        found = {**asdict(self), "data": str(self.data), "until_target": dict(self.until_target), "weights": sha256}
        return CellRecord(**found)

    def to_json(self) -> dict[str, Any]:
        return self.record.to_json()
