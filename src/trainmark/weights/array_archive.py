"""The npz checkpoints of Paddle and JAX trainings: arrays and JSON, read as data.

A file may come from a stranger. Nothing is unpickled or decompressed, and no memory is taken before the sizes in the
file are checked against its length.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from trainmark.errors import first_line

PARTS = ("model", "optimizer")
"""An array is called `model/NAME` or `optimizer/NAME`."""
_PLAIN = "plain"
"""Everything else, as JSON text in an array of bytes."""
_SUFFIX = ".npy"
_MAX_PLAIN_BYTES = 64 << 20
"""Progress and the states of random number generators: a few kB for each rank."""
_KINDS = "fiubU"
"""Of array types: numbers, booleans, and the text in which older checkpoints of JAX hold their JSON."""
_ERRORS = (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError, LookupError, RecursionError)


class ArrayArchiveError(Exception):
    """The file is damaged, hostile or of another program."""

    def __init__(self, why: str, *, has_objects: bool = False) -> None:
        self.has_objects = has_objects
        """It has Python objects, whose loading could run code."""
        super().__init__(why)


@dataclass(frozen=True, kw_only=True)
class ArrayInArchive:
    """Its type and shape, known to fit its data; the data is read on demand."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    begin: int
    """Of the data in its member, behind the header."""
    archive: zipfile.ZipFile
    member: zipfile.ZipInfo

    def read(self) -> NDArray[Any]:
        try:
            data = bytearray(self.archive.read(self.member))  # an array of a bytearray can be written to
            flat: NDArray[Any] = np.frombuffer(data, dtype=self.dtype, offset=self.begin)
            return flat.reshape(self.shape, order="F" if self.is_fortran else "C")
        except _ERRORS as error:
            raise ArrayArchiveError(first_line(error)) from error


@dataclass(frozen=True, kw_only=True)
class ArrayArchive:
    parts: Mapping[str, Mapping[str, ArrayInArchive]]
    """By part and by name in it."""
    plain: dict[str, Any]
    framework: str
    """Which wrote it, and whose names and layouts the model's arrays have."""


def write_archive(
    file: BinaryIO, parts: Mapping[str, Mapping[str, NDArray[Any]]], plain: Mapping[str, Any], *, framework: str
) -> None:
    arrays = {f"{part}/{name}": array for part in PARTS for name, array in parts[part].items()}
    text = json.dumps({**plain, "framework": framework}).encode()
    np.savez(file, allow_pickle=False, **arrays, **{_PLAIN: np.frombuffer(text, dtype=np.uint8)})


def is_array_archive(names: list[str]) -> bool:
    """By the names of its members: PyTorch's archives have no `.npy`."""
    return any(name.endswith(_SUFFIX) for name in names)


def read_archive(file: BinaryIO) -> ArrayArchive:
    """Which arrays there are. `file` must stay open until they are read."""
    try:
        archive = zipfile.ZipFile(file)
        _check_members(archive.infolist(), file.seek(0, 2))
        arrays = {member.filename: _open_array(archive, member) for member in archive.infolist()}
        if _PLAIN + _SUFFIX not in arrays:
            raise ArrayArchiveError("an npz archive, but not a checkpoint of trainmark")
        stored_plain = arrays.pop(_PLAIN + _SUFFIX)
        plain = _read_plain(stored_plain)
    except _ERRORS as error:
        raise ArrayArchiveError(first_line(error)) from error
    parts: dict[str, dict[str, ArrayInArchive]] = {part: {} for part in PARTS}
    for name, array in arrays.items():
        part, _, inner = name.removesuffix(_SUFFIX).partition("/")
        if part not in parts or not inner:
            raise ArrayArchiveError(f"unexpected part {name[:60]!r}")
        parts[part][inner] = array
    # Older checkpoints do not name their framework: Paddle's had the JSON as bytes, JAX's as text.
    framework = str(plain.pop("framework", "jax" if stored_plain.dtype.kind == "U" else "paddle"))
    return ArrayArchive(parts=parts, plain=plain, framework=framework)


def _check_members(members: list[zipfile.ZipInfo], num_bytes: int) -> None:
    """Never larger in memory than on disk: trainmark does not compress, and members must not share their bytes."""
    if any(member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1 for member in members):
        raise ArrayArchiveError("has compressed or encrypted parts, which trainmark does not write")
    if any(member.file_size != member.compress_size for member in members):
        raise ArrayArchiveError("the sizes of a part contradict each other")
    if sum(member.file_size for member in members) > num_bytes:
        raise ArrayArchiveError("its parts are larger than the file")
    if len({member.filename for member in members}) != len(members):
        raise ArrayArchiveError("two parts have the same name")


def _open_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> ArrayInArchive:
    if not member.filename.endswith(_SUFFIX):
        raise ArrayArchiveError(f"unexpected part {member.filename[:60]!r}")
    with archive.open(member) as part:
        version = np.lib.format.read_magic(part)
        if version not in ((1, 0), (2, 0)):
            raise ArrayArchiveError(f"unknown version {version} of an array")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(part)
        begin = part.tell()
    if dtype.hasobject:
        raise ArrayArchiveError("has Python objects", has_objects=True)
    if dtype.kind not in _KINDS or dtype.itemsize == 0:
        raise ArrayArchiveError(f"an array has values of type {str(dtype)[:40]}")
    if any(side < 0 for side in shape) or math.prod(shape) * dtype.itemsize != member.file_size - begin:
        raise ArrayArchiveError(f"the shape of {member.filename[:60]!r} does not fit its data")
    return ArrayInArchive(shape=shape, dtype=dtype, is_fortran=is_fortran, begin=begin, archive=archive, member=member)


def _read_plain(array: ArrayInArchive) -> dict[str, Any]:
    if array.member.file_size > _MAX_PLAIN_BYTES:
        raise ArrayArchiveError(f"its JSON has over {_MAX_PLAIN_BYTES:,} bytes")
    value = array.read()
    found = json.loads(str(value) if array.dtype.kind == "U" else value.tobytes())
    if not isinstance(found, dict):
        raise ArrayArchiveError("its JSON is not an object")
    return found
