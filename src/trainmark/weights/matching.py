"""Which tensors of a file belong to which of a model. Values are read once everything else is known to fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainmark.weights.neutral import WeightsError
from trainmark.weights.stored import StoredTensor, StoredWeights, describe
from trainmark.workloads.layout import Arrays, Layout, Origin
from trainmark.workloads.registry import load_module

_WRAPPERS = ("module.", "_orig_mod.", "model.")
"""What data parallelism, the compiler and trainers put before every name."""
_COUNTER = "num_batches_tracked"
_PADDLE_NAMES = {"_mean": "running_mean", "_variance": "running_var"}
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    name: str
    """As the file has it."""
    why: str


@dataclass(frozen=True, kw_only=True)
class Match:
    layout: Layout
    sources: Mapping[str, StoredTensor]
    """By our names."""
    left_out: tuple[LeftOut, ...]
    kept: tuple[str, ...]
    """Tensors of the model that keep the values they have."""


def find_match(stored: StoredWeights, workload: str, shapes: Mapping[str, tuple[int, ...]]) -> Match:
    """By the layout of which the file has most; an error if it is of another network."""
    module = load_module(workload, "weights")
    tensors = dict(plain_names(stored))
    known = {layout.name: sum(layout.rename(name) in shapes for name in tensors) for layout in module.LAYOUTS}
    if not any(known.values()):
        why = f"none of its {len(tensors)} tensors is a layer of {workload}, such as {next(iter(tensors), '')[:80]!r}"
        raise WeightsError("nothing in it fits", why=why, hint=f"known layouts: {', '.join(known)}")
    problem: WeightsError | None = None
    for layout in sorted(module.LAYOUTS, key=lambda layout: -known[layout.name]):
        try:
            return _match(layout, tensors, shapes, module.CLASS_LAYERS)
        except WeightsError as error:
            problem = problem or error  # of the layout that knows most names
    assert problem is not None
    raise problem


def _match(
    layout: Layout,
    tensors: Mapping[str, StoredTensor],
    shapes: Mapping[str, tuple[int, ...]],
    class_layers: tuple[str, ...],
) -> Match:
    sources, left_out, strange = {}, [], []
    for name, tensor in tensors.items():
        ours = layout.rename(name)
        if ours is None:
            left_out.append(LeftOut(name=name, why="no such layer in this model"))
        elif ours in layout.helpers or shapes.get(ours) == tensor.shape:
            sources[ours] = tensor
        elif ours in shapes and (ours in layout.differing or ours.startswith(class_layers)):
            why = f"{describe(tensor.shape)} in the file, {describe(shapes[ours])} in the model"
            left_out.append(LeftOut(name=name, why=why))
        else:
            wanted = f"is {describe(shapes[ours])} in the model" if ours in shapes else "is not in the model"
            strange.append(f"{name[:80]} ({describe(tensor.shape)}) {wanted}")
    if strange:
        raise WeightsError("it is of another network", why=f"read as {layout.name}: {enumerate_some(strange)}")
    if not sources:
        raise WeightsError("nothing in it fits", why=f"read as {layout.name}, no tensor has a place in the model")
    kept = [name for name in shapes if name not in sources]
    differing = {layout.rename(item.name) for item in left_out}
    begun = {name.rpartition(".")[0] for name in (*sources, *(name for name in differing if name))}
    must = [
        name for name in kept
        if layout.covers(name) and name not in layout.differing and name not in differing
        and not (name.startswith(class_layers) and name.rpartition(".")[0] not in begun)
    ]  # fmt: skip
    if must:
        raise WeightsError("it is incomplete", why=f"read as {layout.name}, it lacks {enumerate_some(must)}")
    return Match(layout=layout, sources=sources, left_out=tuple(left_out), kept=tuple(kept))


def read_match(match: Match, origin: Origin) -> Arrays:
    """The values, checked, under our names and for our model."""
    arrays = {name: _read(name, tensor) for name, tensor in match.sources.items()}
    return match.layout.finish(arrays, origin)


def _read(name: str, tensor: StoredTensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    try:
        values = tensor.read()
    except WeightsError as error:
        raise WeightsError(f"{name}: {error.what}", why=error.why) from error
    if not np.isfinite(values).all():
        raise WeightsError("it has values that are not finite", why=f"{name} has NaN or infinity")
    if name.endswith(".running_var") and (values < 0).any():
        raise WeightsError("it has impossible values", why=f"{name} has a negative variance")
    return values


def plain_names(stored: StoredWeights) -> Iterator[tuple[str, StoredTensor]]:
    """Without wrappers and counters; Paddle's names of statistics and order of linear layers turned into ours."""
    tensors = {name: tensor for name, tensor in stored.tensors.items() if not name.endswith(_COUNTER)}
    prefix = ""
    while longer := next((p for p in _WRAPPERS if tensors and all(n.startswith(prefix + p) for n in tensors)), ""):
        prefix += longer
    for name, tensor in tensors.items():
        plain = name[len(prefix) :]
        if not stored.is_paddle:
            yield plain, tensor
            continue
        layer, _, last = plain.rpartition(".")
        yield f"{layer}.{_PADDLE_NAMES.get(last, last)}", _transposed(tensor) if len(tensor.shape) == 2 else tensor


def _transposed(tensor: StoredTensor) -> StoredTensor:
    return StoredTensor(
        shape=tensor.shape[::-1], dtype=tensor.dtype, read=lambda: np.ascontiguousarray(tensor.read().T)
    )


def enumerate_some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
