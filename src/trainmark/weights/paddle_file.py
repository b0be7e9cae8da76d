"""Paddle's `.pdparams`: a pickle of names and numpy arrays."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainmark.weights.neutral import WeightsError
from trainmark.weights.pickled import Calls, Nothing, read_pickle
from trainmark.weights.stored import StoredTensor, StoredWeights, number_of, to_float32

_SPLIT = "UnpackBigParamInfor@@"
"""Where Paddle has cut an array of over 4 GiB into parts."""


class PickledType:
    """A numpy type, such as f4."""

    def __init__(self, text: Any = "", *_: Any) -> None:
        self.text, self.is_big_endian = str(text)[:20], False

    def build(self, state: Any) -> None:
        self.is_big_endian = state[1] == ">"

    @property
    def name(self) -> str:
        """`unknown` for objects, structures and dates."""
        try:
            found = np.dtype(self.text)
        except (TypeError, ValueError):
            return "unknown"
        return found.name if found.kind in "fiub" else "unknown"


class LatinText:
    """Bytes that an old protocol writes as text. Decoded when they are read: the same text may be used many times."""

    def __init__(self, text: str, encoding: str) -> None:
        if encoding != "latin1":
            raise ValueError(f"text in {encoding[:20]!r}")
        self.text = text


class PickledArray:
    """numpy's array: made empty, then given shape, type, order and bytes."""

    def __init__(self, *_: Any) -> None:
        self._shape: tuple[int, ...] = (0,)
        self._dtype = PickledType("f4")
        self._is_fortran = False
        self._data: Any = b""

    def build(self, state: Any) -> None:
        _, self._shape, self._dtype, self._is_fortran, self._data = state
        if not isinstance(self._dtype, PickledType):
            raise TypeError("an array without a type")
        number_of(self._shape)

    def stored(self) -> StoredTensor:
        return StoredTensor(shape=tuple(self._shape), dtype=self._dtype.name, read=self._read)

    def _read(self) -> Any:
        data = self._data.text.encode("latin1") if isinstance(self._data, LatinText) else self._data
        if not isinstance(data, bytes | bytearray):
            raise WeightsError("wrong type", why="an array holds Python objects")
        values = to_float32(data, self._dtype.name, is_big_endian=self._dtype.is_big_endian)
        if len(values) != number_of(self._shape):
            raise WeightsError("damaged", why=f"{len(values)} values for a shape of {number_of(self._shape)}")
        return values.reshape(self._shape, order="F" if self._is_fortran else "C")


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> PickledArray:
    array = PickledArray()
    array.build((1, shape, dtype, order == "F", data))
    return array


_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
NUMPY_CALLS: Calls = {
    ("numpy", "ndarray"): PickledArray,
    ("numpy", "dtype"): PickledType,
    ("_codecs", "encode"): LatinText,
    **{(module, "_reconstruct"): PickledArray for module in _MULTIARRAY},
    **{(module, "scalar"): lambda *_: Nothing() for module in _MULTIARRAY},
    **{(module, "_frombuffer"): _from_buffer for module in ("numpy.core.numeric", "numpy._core.numeric")},
}
_CALLS: Calls = {
    **NUMPY_CALLS,
    ("collections", "OrderedDict"): lambda *_: {},
    **{(module, "tuple"): tuple for module in ("builtins", "__builtin__")},
}


def read_paddle(data: bytes) -> StoredWeights:
    found = read_pickle(io.BytesIO(data), _CALLS)
    if not isinstance(found, Mapping):
        raise WeightsError("it is not a file of weights", why="it holds no names")
    if _SPLIT in found:
        raise WeightsError("unknown layout", why="Paddle has split an array of over 4 GiB in it")
    return StoredWeights(kind="Paddle", tensors=_tensors(found), is_paddle=True)


def _tensors(found: Mapping[Any, Any]) -> dict[str, StoredTensor]:
    """An array, or a pair of the parameter's inner name and its array."""
    tensors = {}
    for name, value in found.items():
        array = value[1] if isinstance(value, tuple) and len(value) == 2 else value
        if isinstance(name, str) and isinstance(array, PickledArray):
            tensors[name] = array.stored()
    return tensors
