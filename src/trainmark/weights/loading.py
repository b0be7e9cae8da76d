"""From a file to the values that a model starts with, and what there is to say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainmark.weights.known import find_known
from trainmark.weights.matching import LeftOut, enumerate_some, find_match, read_match
from trainmark.weights.neutral import WeightsError
from trainmark.weights.reading import WeightsFile, read_file, refuse
from trainmark.workloads.layout import Arrays, Origin


@dataclass(frozen=True, kw_only=True)
class Start:
    """The values, and a report of what was loaded, what was not and why."""

    file: WeightsFile
    layout: str
    arrays: Arrays
    num_loaded: int
    num_tensors: int
    """Of the model."""
    left_out: tuple[LeftOut, ...]
    kept: tuple[str, ...]
    """Tensors of the model that the file does not have, or has in another shape."""
    note: str | None
    """What the table of known files or the file itself says about it."""

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file.name,
            "sha256": self.file.sha256,
            "bytes": self.file.num_bytes,
            "format": self.file.stored.kind,
            "layout": self.layout,
            "known": self.note,
            "loaded": self.num_loaded,
            "tensors": self.num_tensors,
            "left_out": [{"name": item.name, "why": item.why} for item in self.left_out],
            "kept": list(self.kept),
        }

    @property
    def sentence(self) -> str:
        parts = [f"{self.file.name} ({self.layout}): {self.num_loaded} of {self.num_tensors} tensors loaded"]
        if self.kept:
            parts.append(f"not loaded: {enumerate_some(self.kept)}")
        differing = [f"{item.name} is {item.why}" for item in self.left_out if " in the file" in item.why]
        parts += [enumerate_some(differing)] if differing else []
        return "; ".join([*parts, *([self.note] if self.note else [])])


def load_start(path: Path, *, workload: str, shapes: Mapping[str, tuple[int, ...]], recipe: str, seed: int) -> Start:
    """An error with the reason if the file is damaged, hostile or of another network."""
    file = read_file(path)
    try:
        match = find_match(file.stored, workload, shapes)
        origin = Origin(recipe=recipe, is_own=file.stored.is_own, seed=seed)
        arrays = read_match(match, origin)
    except WeightsError as error:
        trained = file.stored.about.get("workload", workload)
        if file.stored.is_own and trained != workload:
            what, why = f"{file.name}: the weights do not fit {workload}", f"it holds those of {trained[:40]}"
            raise WeightsError(what, why=why, hint=f"use those of a training of {workload}") from error
        raise refuse(file.name, error) from error
    return Start(
        file=file,
        layout="trainmark" if file.stored.is_own else match.layout.name,
        arrays=arrays,
        num_loaded=sum(name in shapes for name in match.sources),
        num_tensors=len(shapes),
        left_out=match.left_out,
        kept=match.kept,
        note=find_known(file) or _trained_otherwise(file, recipe),
    )


def _trained_otherwise(file: WeightsFile, recipe: str) -> str | None:
    """Another recipe can be another network with the same tensors."""
    own = file.stored.about.get("recipe", recipe) if file.stored.is_own else recipe
    return None if own == recipe else f"they were trained with --recipe {own[:40]}, this run has {recipe}"
