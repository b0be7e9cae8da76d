"""A probe's request and result as files of a folder: JSON for what is short, npz for arrays. Nothing is pickled."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.runfolder.document import WorkloadCell
from trainmark.runfolder.files import replacing
from trainmark.worker.probe import EpochRequest, EpochResult, ProbeRequest, ProbeResult, digest, leaves
from trainmark.workloads.data import Arrays

REQUEST, RESULT, FAILURE = "request", "result", "failure.json"
_SCHEMA = 2
_ARRAY = "@"
"""Key of an object that stands for an array: its name in the npz file."""
_TUPLE = "tuple"
_WEIGHTS, _BATCHES = "weights", "batches"


_UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error)
"""What reading a file raises that is cut off, damaged or of another kind."""


class ProbeFailedError(Exception):
    """The process of a probe ended without a result; the text says why."""


def write_request(folder: Path, request: ProbeRequest | EpochRequest) -> None:
    folder.mkdir(parents=True)
    if isinstance(request, EpochRequest):
        _write(folder, REQUEST, {"cell": asdict(request.cell), "num_steps": request.num_steps}, {})
        return
    arrays: dict[str, NDArray[Any]] = {f"{_BATCHES}/{name}": array for name, array in leaves(list(request.batches))}
    plain = {name: value for name, value in vars(request).items() if name not in (_WEIGHTS, _BATCHES)}
    document = {
        **{name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()},
        _WEIGHTS: None if request.weights is None else _share_weights(folder.parent, request.weights),
        _BATCHES: _describe(list(request.batches), _BATCHES),
    }
    _write(folder, REQUEST, document, arrays)


def _share_weights(folder: Path, weights: Mapping[str, NDArray[Any]]) -> str:
    """The name of a file beside the requests' folders: a hundred requests have the same weights."""
    name = f"{_WEIGHTS}-{digest(weights)}"
    if not (folder / f"{name}.json").exists():
        _write(folder, name, {}, weights)
    return name


def key_of(request: ProbeRequest, *, salt: str) -> str:
    """Equal requests have equal keys; `salt` is what else the result depends on."""
    plain = {name: value for name, value in vars(request).items() if name not in (_WEIGHTS, _BATCHES)}
    found = hashlib.sha256(json.dumps([_SCHEMA, salt, plain], default=str, sort_keys=True).encode())
    for part in (list(request.batches), request.weights or {}):
        found.update(digest(part).encode())
    return found.hexdigest()[:24]


def remove_request(folder: Path) -> None:
    """It is larger than most results."""
    for suffix in ("json", "npz"):
        (folder / f"{REQUEST}.{suffix}").unlink(missing_ok=True)


def why_failed(folder: Path) -> str | None:
    """As the process of the probe has written it; None if it has not, or not to the end."""
    try:
        return str(json.loads((folder / FAILURE).read_text())["why"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_request(folder: Path) -> ProbeRequest | EpochRequest:
    document, arrays = _read(folder, REQUEST)
    if "cell" in document:
        return EpochRequest(cell=WorkloadCell(**document["cell"]), num_steps=document["num_steps"])
    name = document.pop(_WEIGHTS)
    weights = None if name is None else _read(folder.parent, name)[1]
    batches = _restore(document.pop(_BATCHES), arrays)
    plain: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in document.items()}
    return ProbeRequest(**plain, batches=batches, weights=weights)


def write_result(folder: Path, result: ProbeResult | EpochResult) -> None:
    if isinstance(result, EpochResult):
        named = {f"{_BATCHES}/{name}": array for name, array in leaves(list(result.batches))}
        document = {"facts": result.facts, _BATCHES: _describe(list(result.batches), _BATCHES)}
        _write(folder, RESULT, document, {"rates": result.rates, **named})
        return
    arrays: dict[str, NDArray[Any]] = {"losses": result.losses}
    for kind in ("outputs", "terms", "gradients"):
        arrays.update({f"{kind}/{name}": array for name, array in getattr(result, kind).items()})
    for step, weights in result.weights.items():
        arrays.update({f"{_WEIGHTS}/{step}/{name}": array for name, array in weights.items()})
    _write(folder, RESULT, {"facts": result.facts, "kept": list(result.weights)}, arrays)


def read_probe_result(folder: Path) -> ProbeResult:
    document, arrays = _read_or_fail(folder)
    return ProbeResult(
        outputs=_under(arrays, "outputs"),
        terms=_under(arrays, "terms"),
        gradients=_under(arrays, "gradients"),
        losses=arrays["losses"],
        weights={int(step): _under(arrays, f"{_WEIGHTS}/{step}") for step in document["kept"]},
        facts=document["facts"],
    )


def read_kept_result(folder: Path) -> ProbeResult | None:
    """None if there is none, or if it cannot be read: then it is computed again."""
    try:
        return read_probe_result(folder)
    except (ProbeFailedError, *_UNREADABLE):
        return None


def read_epoch_result(folder: Path) -> EpochResult:
    document, arrays = _read_or_fail(folder)
    return EpochResult(rates=arrays["rates"], batches=_restore(document[_BATCHES], arrays), facts=document["facts"])


def write_failure(folder: Path, why: str) -> None:
    (folder / FAILURE).write_text(json.dumps({"why": why}))


def _read_or_fail(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    if (folder / FAILURE).exists():
        raise ProbeFailedError(why_failed(folder) or "the process failed")
    if not (folder / f"{RESULT}.json").exists():
        raise ProbeFailedError("the process ended without a result")
    return _read(folder, RESULT)


def _write(folder: Path, name: str, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """The JSON last: who finds it finds everything."""
    # Names of weights have dots and slashes, and a name could be one of savez's own arguments: numbers are safe.
    names = list(arrays)
    numbered: dict[str, Any] = {f"a{number}": arrays[key] for number, key in enumerate(names)}
    with replacing(folder / f"{name}.npz") as file:
        np.savez(file, **numbered)
    text = json.dumps({"schema": _SCHEMA, "arrays": names, **document}, default=str, allow_nan=False)
    with replacing(folder / f"{name}.json") as file:
        file.write(text.encode())


def _read(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    document: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    if document.pop("schema") != _SCHEMA:
        raise ProbeFailedError("written by another version of trainmark")
    # Opened here: numpy leaves a file open that it cannot read.
    with (folder / f"{name}.npz").open("rb") as file, np.load(file, allow_pickle=False) as found:
        arrays = {key: found[f"a{number}"] for number, key in enumerate(document.pop("arrays"))}
    return document, arrays


def _under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    start = f"{prefix}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _describe(arrays: Arrays, name: str) -> Any:
    """The nesting as JSON, with a name in place of each array."""
    if isinstance(arrays, Mapping):
        return {key: _describe(part, f"{name}/{key}") for key, part in arrays.items()}
    if isinstance(arrays, (list, tuple)):
        parts = [_describe(part, f"{name}/{number}") for number, part in enumerate(arrays)]
        return {_TUPLE: parts} if isinstance(arrays, tuple) else parts
    return {_ARRAY: name}


def _restore(described: Any, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    if isinstance(described, list):
        return [_restore(part, arrays) for part in described]
    if set(described) == {_ARRAY}:
        return arrays[described[_ARRAY]]
    if set(described) == {_TUPLE}:
        return tuple(_restore(part, arrays) for part in described[_TUPLE])
    return {key: _restore(part, arrays) for key, part in described.items()}
