"""PyTorch's files, without PyTorch: the zip archives of today and the plain ones from before version 1.6."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainmark.weights.neutral import WeightsError
from trainmark.weights.paddle_file import NUMPY_CALLS
from trainmark.weights.pickled import Calls, Name, Nothing, read_pickle
from trainmark.weights.stored import Array, StoredTensor, StoredWeights, number_of, to_float32

_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_MAX_INDEX_BYTES = 64 << 20
"""Of the pickle inside an archive: names and shapes only."""
_TYPES = {
    "FloatStorage": ("float32", 4), "DoubleStorage": ("float64", 8), "HalfStorage": ("float16", 2),
    "BFloat16Storage": ("bfloat16", 2), "LongStorage": ("int64", 8), "IntStorage": ("int32", 4),
    "ShortStorage": ("int16", 2), "CharStorage": ("int8", 1), "ByteStorage": ("uint8", 1), "BoolStorage": ("bool", 1),
}  # fmt: skip
_STATE_KEYS = ("state_dict", "model", "model_state", "model_state_dict", "state_dict_ema", "net", "params")
_OWN_KEYS = {"model", "scaler", "randomness", "progress"}
"""Of a checkpoint that trainmark wrote."""


ZIP_ERRORS = (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError, KeyError)


@dataclass(frozen=True, kw_only=True)
class Storage:
    key: str
    dtype: str
    item_bytes: int
    num_items: int


@dataclass(frozen=True, kw_only=True)
class TorchTensor:
    """A view of a storage, checked to lie inside it."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def stored(self, read: Callable[[Storage], Any]) -> StoredTensor:
        return StoredTensor(shape=self.shape, dtype=self.storage.dtype, read=lambda: self._read(read(self.storage)))

    def _read(self, raw: Any) -> Array:
        flat = to_float32(raw, self.storage.dtype)[self.offset :]
        view = np.lib.stride_tricks.as_strided(flat, self.shape, [4 * stride for stride in self.strides])
        return np.array(view)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> TorchTensor:
    if not isinstance(storage, Storage) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise TypeError("a tensor without a storage")
    number = number_of(shape)
    is_valid = len(strides) == len(shape) and all(isinstance(part, int) and part >= 0 for part in (offset, *strides))
    last = sum((side - 1) * stride for side, stride in zip(shape, strides, strict=True)) if is_valid and number else 0
    if not is_valid or number > storage.num_items or (number and offset + last >= storage.num_items):
        raise WeightsError("damaged", why="a tensor reaches beyond its data")
    return TorchTensor(storage=storage, offset=offset, shape=shape, strides=strides)


def _storage(reference: Any) -> Storage:
    kind, type_, key, _, num_items, *view = reference
    if kind != "storage" or not isinstance(type_, Name) or type_.name not in _TYPES or any(view):
        raise WeightsError("unknown layout", why="a tensor's data is of an unknown kind")
    if not isinstance(key, str) or not isinstance(num_items, int) or num_items < 0:
        raise TypeError("a storage without a key")
    dtype, item_bytes = _TYPES[type_.name]
    return Storage(key=key, dtype=dtype, item_bytes=item_bytes, num_items=num_items)


_CALLS: Calls = {
    **NUMPY_CALLS,
    ("collections", "OrderedDict"): lambda *_: {},
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
    ("torch", "Size"): lambda sides=(): tuple(sides),
    ("torch", "device"): lambda *_: Nothing(),
    ("argparse", "Namespace"): lambda *_: Nothing(),
    **{("torch", name): lambda *_: Nothing() for name in _TYPES},
}


# -- archives ----------------------------------------------------------------------------------------------------------


def read_torch_archive(data: bytes) -> StoredWeights:
    archive = _Archive(data)
    if archive.read("byteorder", default=b"little") != b"little":
        raise WeightsError("unknown layout", why="it was written on a big-endian machine")

    def read(storage: Storage) -> bytes:
        raw = archive.read(f"data/{storage.key}")
        if len(raw) != storage.num_items * storage.item_bytes:
            raise WeightsError("damaged", why=f"the data of storage {storage.key[:40]!r} are cut")
        return raw

    index = read_pickle(io.BytesIO(archive.read("data.pkl")), _CALLS, resolve=_storage)
    return _weights(index, read, "PyTorch")


class _Archive:
    """The parts of a zip file, in memory. Nothing is extracted, so the names in it are only keys."""

    def __init__(self, data: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except ZIP_ERRORS as error:
            raise WeightsError("damaged, or not a zip archive", why=str(error)[:200]) from error
        self._most_bytes = len(data)
        self._members = {member.filename: member for member in self._zip.infolist()}
        last_parts = {name.rpartition("/")[2]: name for name in self._members}
        if "constants.pkl" in last_parts:
            hint = "save model.state_dict() instead"
            raise WeightsError("it is a TorchScript program", why="it has code beside its weights", hint=hint)
        if "data.pkl" not in last_parts:
            raise WeightsError("it is not a file of PyTorch", why="a zip archive without data.pkl")
        self._root = last_parts["data.pkl"].removesuffix("data.pkl")
        """The folder inside the archive, named after the file it was saved to."""
        if self._members[last_parts["data.pkl"]].file_size > _MAX_INDEX_BYTES:
            raise WeightsError("its index is too large", why=f"data.pkl has over {_MAX_INDEX_BYTES:,} bytes")

    def read(self, name: str, *, default: bytes | None = None) -> bytes:
        """PyTorch never compresses, so no part can be larger than the file it is in."""
        member = self._members.get(self._root + name)
        if member is None:
            if default is None:
                raise WeightsError("damaged", why=f"its part {name[:60]!r} is missing")
            return default
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise WeightsError("it is not a file of PyTorch", why="its parts are compressed or encrypted")
        if member.file_size > self._most_bytes or member.file_size != member.compress_size:
            raise WeightsError("damaged", why="a part is larger than the file")
        try:
            return self._zip.read(member)
        except ZIP_ERRORS as error:
            raise WeightsError("damaged", why=str(error)[:200]) from error


# -- before 1.6 --------------------------------------------------------------------------------------------------------


def read_torch_legacy(data: bytes) -> StoredWeights:
    """Pickles one after another: magic number, version, machine, the object, the keys; then the data of each key."""
    file = io.BytesIO(data)
    magic, version, machine = (read_pickle(file, {}) for _ in range(3))
    if magic != _MAGIC or version != _VERSION or not isinstance(machine, dict) or not machine.get("little_endian"):
        raise WeightsError("unknown layout", why="not a little-endian file of PyTorch, version 1001")
    storages: dict[str, Storage] = {}

    def note(reference: Any) -> Storage:
        storage = _storage(reference)
        if storages.setdefault(storage.key, storage) != storage:
            raise WeightsError("damaged", why="a storage has two sizes")
        return storage

    found = read_pickle(file, _CALLS, resolve=note)
    keys = read_pickle(file, {})
    places = _find_places(data, file.tell(), keys if isinstance(keys, list) else [], storages)

    def read(storage: Storage) -> memoryview:
        if storage.key not in places:
            raise WeightsError("damaged", why=f"the data of storage {storage.key[:40]!r} are missing")
        begin = places[storage.key]
        return memoryview(data)[begin : begin + storage.num_items * storage.item_bytes]

    return _weights(found, read, "PyTorch (before 1.6)")


def _find_places(data: bytes, begin: int, keys: list[Any], storages: Mapping[str, Storage]) -> dict[str, int]:
    places = {}
    for key in keys:
        storage = storages.get(key) if isinstance(key, str) else None
        if storage is None or int.from_bytes(data[begin : begin + 8], "little") != storage.num_items:
            raise WeightsError("damaged", why="its list of data does not fit its tensors")
        places[storage.key] = begin + 8
        begin += 8 + storage.num_items * storage.item_bytes
        if begin > len(data):
            raise WeightsError("damaged", why="it ends early")
    return places


# -- what both hold ----------------------------------------------------------------------------------------------------


def _weights(found: Any, read: Callable[[Storage], Any], kind: str) -> StoredWeights:
    if not isinstance(found, Mapping):
        raise WeightsError("it is not a file of weights", why="it holds no names")
    inner = next((found[key] for key in _STATE_KEYS if isinstance(found.get(key), Mapping)), found)
    tensors = {
        name: value.stored(read)
        for name, value in inner.items()
        if isinstance(name, str) and isinstance(value, TorchTensor)
    }
    return StoredWeights(kind=kind, tensors=tensors, is_own=set(found) >= _OWN_KEYS)


def is_legacy(data: bytes) -> bool:
    """Starts with the pickle of the magic number: a long of ten bytes, in protocol 2."""
    length = math.ceil(_MAGIC.bit_length() / 8)
    return data[:2] == b"\x80\x02" and _MAGIC.to_bytes(length, "little") in data[:24]
