"""parity/*.json of a store: whether frameworks were shown to train the same thing. `trainmark parity` writes them.

A proof holds for one version of a workload's card, of each framework and of trainmark's own code for them.
What a file claims is computed again from the numbers in it: somebody may have edited it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trainmark.runfolder.files import Json, read_json, write_json
from trainmark.runfolder.values import as_bool, as_float, as_int, as_object, as_text

PARITY_FOLDER = "parity"
MATHEMATICS, ROUNDING, TRAJECTORY, WORK = "mathematics", "rounding", "trajectory", "work"
STAGES = (MATHEMATICS, ROUNDING, TRAJECTORY, WORK)
REFERENCE = ("torch", "reference")
"""Framework and recipe that the others are measured against."""
USUAL_SEED = 1
LEAST_STEPS, LEAST_REPEATS = 200, 8
"""Of a trajectory that proves something: a fault may need many steps to show, and the noise several repeats."""
_SCHEMA = 2
"""1: without the code of each side."""
_MAX_FILES = 1000


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One way to train a workload."""

    framework: str
    recipe: str
    version: str
    """As the framework says it: `torch 2.15.0`."""
    code: str = ""
    """Digest of trainmark's code that trains the workload so; a run has it as `training_code` in its env.json."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Versions of the framework's parts, such as jaxlib, by package."""

    @property
    def name(self) -> str:
        return self.framework if self.recipe == "reference" else f"{self.framework} {self.recipe}"


@dataclass(frozen=True, kw_only=True)
class StageRecord:
    stage: str
    precision: str
    measured: float | None
    """The largest difference, in the unit of the limit; None if it is not a finite number."""
    limit: float
    holds: bool
    worst: str
    """What differs most: a tensor, a fact, a range of steps."""
    failed: tuple[str, ...] = ()
    """Everything beyond its limit, the worst first, at most a few."""
    parts: Mapping[str, float | None] = field(default_factory=dict)
    """The largest difference of each part."""
    facts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """What each side was seen to do, by name, where the stage compares facts."""
    steps: int | None = None
    """Of a trajectory; None for the other stages."""
    repeats: int | None = None
    """Of the reference in a trajectory; None for the other stages."""

    @property
    def is_short(self) -> bool:
        """A trajectory that is too short to prove anything."""
        return self.stage == TRAJECTORY and ((self.steps or 0) < LEAST_STEPS or (self.repeats or 0) < LEAST_REPEATS)

    @classmethod
    def from_json(cls, value: Any) -> StageRecord | None:
        given = as_object(value)
        stage, limit, failed = as_text(given.get("stage")), as_float(given.get("limit")), given.get("failed")
        if stage is None or limit is None:
            return None
        measured = as_float(given.get("measured"))
        is_within = measured is not None and measured <= limit and not failed
        return cls(
            stage=stage,
            precision=as_text(given.get("precision")) or "",
            measured=measured,
            limit=limit,
            holds=is_within and as_bool(given.get("holds")) is True,
            worst=as_text(given.get("worst")) or "",
            failed=tuple(as_text(item) or "" for item in failed) if isinstance(failed, list) else (),
            parts={name: as_float(part) for name, part in as_object(given.get("parts")).items()},
            facts={name: _two(pair) for name, pair in as_object(given.get("facts")).items()},
            steps=as_int(given.get("steps")),
            repeats=as_int(given.get("repeats")),
        )


@dataclass(frozen=True, kw_only=True)
class PairRecord:
    one: Contestant
    other: Contestant
    stages: tuple[StageRecord, ...]

    @property
    def holds(self) -> bool:
        """Where nothing was compared, nothing holds."""
        return bool(self.stages) and all(stage.holds for stage in self.stages)

    @classmethod
    def from_json(cls, value: Any) -> PairRecord | None:
        given = as_object(value)
        sides = [_contestant(given.get(name)) for name in ("one", "other")]
        listed = given.get("stages")
        stages = [StageRecord.from_json(item) for item in listed] if isinstance(listed, list) else []
        if sides[0] is None or sides[1] is None or None in stages or not stages:
            return None
        return cls(one=sides[0], other=sides[1], stages=tuple(stage for stage in stages if stage is not None))


@dataclass(frozen=True, kw_only=True)
class ParityRecord:
    workload: str
    card_version: int
    size: str
    device: str
    seed: int = USUAL_SEED
    """Of the weights, the batches and the order of samples."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the environment, as the check had them: those that a run records too."""
    code: str
    """Digest of trainmark's code that makes and judges the check; that of the trainings is with each side."""
    unix_s: float
    pairs: tuple[PairRecord, ...]

    @property
    def holds(self) -> bool:
        return bool(self.pairs) and all(pair.holds for pair in self.pairs)

    @classmethod
    def from_json(cls, value: Any) -> ParityRecord | None:
        """None for a file that is damaged, not ours or of another version: then nothing is proven."""
        given = as_object(value)
        listed = given.get("pairs")
        pairs = [PairRecord.from_json(item) for item in listed] if isinstance(listed, list) else []
        workload, version = as_text(given.get("workload")), as_int(given.get("card_version"))
        seed = as_int(given.get("seed"))
        if given.get("schema") != _SCHEMA or workload is None or version is None:
            return None
        return cls(
            workload=workload,
            card_version=version,
            size=as_text(given.get("size")) or "",
            device=as_text(given.get("device")) or "",
            seed=USUAL_SEED if seed is None else seed,
            variables={name: as_text(value) or "" for name, value in as_object(given.get("variables")).items()},
            code=as_text(given.get("code")) or "",
            unix_s=as_float(given.get("unix_s")) or 0.0,
            pairs=tuple(pair for pair in pairs if pair is not None),
        )

    def to_json(self) -> Json:
        found = asdict(self)
        for pair, described in zip(self.pairs, found["pairs"], strict=True):
            described["holds"] = pair.holds
        return {"schema": _SCHEMA, **found, "holds": self.holds}


def write_parity(store: Path, record: ParityRecord) -> Path:
    folder = store / PARITY_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(record.unix_s))
    path = folder / f"{record.workload}-{stamp}-{hashlib.sha256(str(record).encode()).hexdigest()[:6]}.json"
    write_json(path, record.to_json())
    return path


def read_parity(store: Path) -> list[ParityRecord]:
    """The newest first."""
    try:
        paths = sorted((store / PARITY_FOLDER).glob("*.json"), key=_when_written)[-_MAX_FILES:]
    except OSError:
        return []
    found = (ParityRecord.from_json(read_json(path)) for path in paths)
    return sorted((record for record in found if record is not None), key=lambda record: -record.unix_s)


def _when_written(path: Path) -> list[str]:
    """By its name; what stands before the time is the workload."""
    return path.stem.rsplit("-", 3)[1:]


def _two(value: Any) -> tuple[str, str]:
    both = value if isinstance(value, list | tuple) and len(value) == 2 else ("", "")
    return as_text(both[0]) or "", as_text(both[1]) or ""


def _contestant(value: Any) -> Contestant | None:
    given = as_object(value)
    framework, recipe, version = (as_text(given.get(name)) for name in ("framework", "recipe", "version"))
    if framework is None or recipe is None or version is None:
        return None
    return Contestant(
        framework=framework,
        recipe=recipe,
        version=version,
        code=as_text(given.get("code")) or "",
        parts={name: as_text(part) or "" for name, part in as_object(given.get("parts")).items()},
    )
