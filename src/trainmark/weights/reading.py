"""A file of weights, whichever kind: recognised by its content, read as data, never run."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.units import format_bytes
from trainmark.weights.array_archive import ArrayArchiveError, ArrayInArchive, is_array_archive, read_archive
from trainmark.weights.neutral import FORMAT, WeightsError
from trainmark.weights.paddle_file import read_paddle
from trainmark.weights.stored import Array, StoredTensor, StoredWeights, number_of, to_float32
from trainmark.weights.torch_file import ZIP_ERRORS, is_legacy, read_torch_archive, read_torch_legacy

MAX_BYTES = 4 << 30
"""The largest public checkpoint of our workloads, Mask R-CNN's with its optimizer, has 0.4 GB."""
_SAFE_TYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}


@dataclass(frozen=True, kw_only=True)
class WeightsFile:
    """Read once: the hash is that of the bytes that were used."""

    name: str
    sha256: str
    num_bytes: int
    stored: StoredWeights


def read_file(path: Path) -> WeightsFile:
    data = read_bytes(path)
    try:
        stored = _parse(data)
        if not stored.tensors:
            raise WeightsError("it is not a file of weights", why="it has no tensors")
    except WeightsError as error:
        raise refuse(path.name, error) from error
    return WeightsFile(name=path.name, sha256=hashlib.sha256(data).hexdigest(), num_bytes=len(data), stored=stored)


def refuse(name: str, error: WeightsError) -> WeightsError:
    """The same error with the name of the file in front."""
    hint = (
        error.hint
        or "pass the checkpoint of a run, or a state dict (.pth, .pt, .pdparams, .safetensors) from a source you trust"
    )
    return WeightsError(f"{name}: {error.what}", why=error.why, hint=hint)


def read_bytes(path: Path) -> bytes:
    """All of it, if it is a regular file of a possible size."""
    what = str(path)
    try:
        # Without waiting, and the facts of what was opened: a pipe or a device would never end.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise WeightsError(f"{what}: not a regular file", hint="pass the path of a file of weights")
            if facts.st_size > MAX_BYTES:
                why = f"{format_bytes(facts.st_size)}, at most {format_bytes(MAX_BYTES)} are read"
                raise WeightsError(f"{what}: too large", why=why, hint="is this the right file?")
            return file.read(MAX_BYTES)
    except OSError as error:
        why = error.strerror or str(error)
        raise WeightsError(f"{what}: cannot be read", why=why, hint="pass the path of a file of weights") from error


def _parse(data: bytes) -> StoredWeights:
    if data[:4] == b"PK\x03\x04":
        return _read_zip(data)
    if is_legacy(data):
        return read_torch_legacy(data)
    if data[:1] == b"\x80":
        return read_paddle(data)
    if data[8:9] == b"{":
        return _read_safetensors(data)
    why = "it is neither safetensors, nor a zip archive, nor a pickle of Paddle or an older PyTorch"
    raise WeightsError("unknown format", why=why)


def _read_zip(data: bytes) -> StoredWeights:
    """Ours of Paddle and JAX, and PyTorch's, which has no arrays of numpy in it."""
    try:
        names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    except ZIP_ERRORS as error:
        raise WeightsError("damaged, or not a zip archive", why=str(error)[:200]) from error
    return _read_checkpoint(data) if is_array_archive(names) else read_torch_archive(data)


def _read_checkpoint(data: bytes) -> StoredWeights:
    try:
        archive = read_archive(io.BytesIO(data))
    except ArrayArchiveError as error:
        raise WeightsError("cannot be read as a checkpoint of Paddle or JAX", why=str(error)) from error
    return StoredWeights(
        kind=f"checkpoint of {archive.framework[:20]}",
        tensors={name: _checkpoint_tensor(array) for name, array in archive.parts["model"].items()},
        is_paddle=archive.framework == "paddle",
        is_own=True,
    )


def _checkpoint_tensor(array: ArrayInArchive) -> StoredTensor:
    def read() -> Array:
        try:
            values = array.read()
        except ArrayArchiveError as error:
            raise WeightsError("damaged", why=str(error)) from error
        if values.dtype.kind != "f":
            raise WeightsError("wrong type", why=f"a tensor has values of type {values.dtype}, expected floating point")
        with np.errstate(over="ignore"):  # a double beyond float32 becomes infinite, which is refused later
            return values.astype(np.float32)

    return StoredTensor(shape=array.shape, dtype=array.dtype.name, read=read)


def _read_safetensors(data: bytes) -> StoredWeights:
    from safetensors import SafetensorError, deserialize

    try:
        parse: Any = deserialize  # it has no types
        found = parse(data)
        header: Any = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except (SafetensorError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise WeightsError("damaged, or not safetensors", why=str(error).splitlines()[0][:200]) from error
    about = {str(key): str(value) for key, value in (header.get("__metadata__") or {}).items()}
    return StoredWeights(
        kind="safetensors",
        tensors={name: _safe_tensor(view) for name, view in found},
        is_own=about.get("trainmark") == FORMAT,
        about=about,
    )


def _safe_tensor(view: Any) -> StoredTensor:
    shape, raw = tuple(view["shape"]), view["data"]
    dtype = _SAFE_TYPES.get(view["dtype"], str(view["dtype"]).lower())
    number_of(shape)
    return StoredTensor(shape=shape, dtype=dtype, read=lambda: to_float32(raw, dtype).reshape(shape))
