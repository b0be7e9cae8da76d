"""The weights of a training, read from its checkpoint and checked, for a file that any framework can start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.controller.start_weights import load_layers
from trainmark.errors import InputError
from trainmark.runfolder.files import find_checkpoint
from trainmark.units import format_count
from trainmark.weights.matching import enumerate_some, find_match, plain_names, read_match
from trainmark.weights.neutral import Weights, WeightsError
from trainmark.weights.reading import read_file
from trainmark.weights.stored import StoredWeights
from trainmark.workloads.layout import Origin, Shapes

if TYPE_CHECKING:
    from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class NeutralWeights:
    workload: str
    options: tuple[str, ...]
    """Of `trainmark run`, for another training like this one."""
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
    workload, framework, recipe = row.workload, row.framework, row.recipe
    if workload is None or framework is None or recipe is None:
        raise InputError(
            f"{row.id} was not made by a workload of trainmark", hint="use a run of trainmark run WORKLOAD"
        )
    layers = load_layers(workload, what=f"reading the weights of {row.id}")
    try:
        file = read_file(checkpoint)
        arrays = _read_all(file.stored, workload, layers)
    except WeightsError as error:
        hint = "use another run of this training, or train again"
        raise WeightsError(f"the weights of {row.id} cannot be used: {error.what}", why=error.why, hint=hint) from error
    about = {
        "workload": workload,
        "recipe": recipe,
        "card": str(row.workload_version or 1),
        "framework": framework,
        "run": row.id,
        "checkpoint_sha256": file.sha256,
    }
    return NeutralWeights(workload=workload, options=_options(row), arrays=arrays, about=about)


def _options(row: RunRow) -> tuple[str, ...]:
    """The data decide the number of classes, without which the classifier would not be loaded."""
    known = {"recipe": row.recipe, "size": row.size, "batch-size": row.batch_size_per_device}
    if row.data is not None and Path(row.data).exists():
        known |= {"data": row.data, "epochs": row.epochs or 1}
    usual = {"recipe": "reference", "size": "full"}
    named = {name: str(value) for name, value in known.items() if value is not None and usual.get(name) != value}
    return tuple(word for name, value in named.items() for word in (f"--{name}", value))


def _read_all(stored: StoredWeights, workload: str, layers: Any) -> Weights:
    """Every tensor of the model, and no other."""
    match = find_match(stored, workload, _shapes(stored, layers))
    left_out = [item.name for item in match.left_out]
    problems = {"it lacks, or has in another shape,": match.kept, "not in the model:": left_out}
    found = [f"{what} {enumerate_some(names)}" for what, names in problems.items() if names]
    if found or not stored.is_own:
        raise WeightsError("it is not the checkpoint of such a training", why="; ".join(found) or stored.kind)
    # What depends on recipe and seed is only done to the files of others.
    return read_match(match, Origin(recipe="reference", is_own=True, seed=0))


def _shapes(stored: StoredWeights, layers: Any) -> Shapes:
    """The file alone knows the number of classes, since the data set may be gone; its layers must agree about it."""
    tensors = dict(plain_names(stored))
    shapes: Shapes = layers.tensor_shapes(1)
    own = {name: tensors[name].shape for name in shapes if name.startswith(layers.CLASS_LAYERS) and name in tensors}
    sizes = {size - background for shape in own.values() for size in shape[:1] for background in (0, 1)}
    for num_classes in sorted(sizes - {0, -1}):
        found: Shapes = layers.tensor_shapes(num_classes)
        if all(found[name] == shape for name, shape in own.items()):
            return found
    return shapes
