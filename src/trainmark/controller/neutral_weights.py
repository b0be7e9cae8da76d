"""The weights of a training as a file for any framework: read from its checkpoint, checked, written whole."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.controller.start_weights import load_layers
from trainmark.errors import InputError
from trainmark.runfolder.files import find_checkpoint, write_all
from trainmark.units import format_count
from trainmark.weights.matching import enumerate_some, find_match, plain_names, read_match
from trainmark.weights.neutral import Weights, WeightsError, write_weights
from trainmark.weights.reading import read_file, refuse
from trainmark.weights.stored import StoredWeights
from trainmark.workloads.layout import Origin, Shapes
from trainmark.workloads.registry import load_card

if TYPE_CHECKING:
    from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class NeutralWeights:
    workload: str
    arrays: Weights
    about: dict[str, str]
    """What they belong to; the metadata of the file."""


def read_weights(store: Path, rows: Sequence[RunRow]) -> NeutralWeights:
    """Of the only one of `rows`, which must be a training of a workload of ours with a checkpoint."""
    if len(rows) != 1:
        ids = enumerate_some([row.id for row in rows])
        raise InputError(f"{format_count(len(rows), 'runs')} have this beginning: {ids}", hint="type more of the id")
    (row,) = rows
    checkpoint = find_checkpoint(store / row.id)
    if checkpoint is None:
        raise InputError(
            f"{row.id} has no checkpoint",
            why="only trainings write one, and only if they get to the end of an epoch or are stopped",
            hint="train with --epochs N or --until-target",
        )
    workload, framework = row.workload, row.framework
    if workload is None or framework is None:
        raise InputError(f"{row.id} is no training of a workload", hint="see trainmark list workloads")
    card, layers = load_card(workload), load_layers(workload, what="reading the weights of this run")
    file = read_file(checkpoint)
    try:
        arrays = _read_all(file.stored, workload, layers)
    except WeightsError as error:
        raise refuse(f"{row.id}/{file.name}", error) from error
    about = {
        "workload": workload,
        "card": str(card.version),
        "framework": framework,
        "run": row.id,
        "checkpoint_sha256": file.sha256,
    }
    return NeutralWeights(workload=workload, arrays=arrays, about=about)


def write_neutral(path: Path, weights: NeutralWeights) -> None:
    """Whole or not at all; an OSError names the file."""
    with tempfile.TemporaryDirectory(prefix="trainmark-") as folder:
        draft = Path(folder, "weights")
        write_weights(draft, weights.arrays, weights.about)
        write_all({path: draft})


def _read_all(stored: StoredWeights, workload: str, layers: Any) -> Weights:
    """Every tensor of the model, and no other."""
    match = find_match(stored, workload, _shapes(stored, layers))
    left_out = [item.name for item in match.left_out]
    problems = {"it lacks": match.kept, "not in the model": left_out}
    found = [f"{what} {enumerate_some(names)}" for what, names in problems.items() if names]
    if found or not stored.is_own:
        raise WeightsError("it is not the checkpoint of such a training", why="; ".join(found) or stored.kind)
    # What depends on recipe and seed is only done to the files of others.
    return read_match(match, Origin(recipe="reference", is_own=True, seed=0))


def _shapes(stored: StoredWeights, layers: Any) -> Shapes:
    """The file alone knows the number of classes, since the data set may be gone."""
    tensors = dict(plain_names(stored))
    shapes: Shapes = layers.tensor_shapes(1)
    classes = {name for name in shapes if name.startswith(layers.CLASS_LAYERS)} & tensors.keys()
    return shapes | {name: tensors[name].shape for name in classes}
