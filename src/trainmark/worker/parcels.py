"""What ranks send each other, as bytes: JSON, and behind it the numpy arrays as npz. Reading them runs no code."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ARRAY = "array of the parcel"
"""The only key of a dictionary that stands for an array."""


def pack(value: Any) -> bytes:
    """None, numbers, texts, arrays, and lists and dictionaries of them; a tuple arrives as a list.

    TypeError for anything else, ValueError for an array of objects.
    """
    arrays: list[NDArray[Any]] = []
    head = json.dumps(_without_arrays(value, arrays)).encode()
    if not arrays:  # as at every edge: an npz file would take ten times as long
        return head
    body = io.BytesIO()
    np.savez(body, *arrays, allow_pickle=False)
    return head + b"\n" + body.getvalue()


def unpack(data: bytes) -> Any:
    head, _, body = data.partition(b"\n")
    if not body:
        return json.loads(head)
    with np.load(io.BytesIO(body), allow_pickle=False) as archive:
        arrays = [archive[f"arr_{number}"] for number in range(len(archive.files))]
    return _with_arrays(json.loads(head), arrays)


def _without_arrays(value: Any, arrays: list[NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {_ARRAY: len(arrays) - 1}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("ranks can exchange only dictionaries whose keys are texts")
        return {key: _without_arrays(item, arrays) for key, item in value.items()}
    return [_without_arrays(item, arrays) for item in value] if isinstance(value, (list, tuple)) else value


def _with_arrays(value: Any, arrays: list[NDArray[Any]]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            return arrays[value[_ARRAY]]
        return {key: _with_arrays(item, arrays) for key, item in value.items()}
    return [_with_arrays(item, arrays) for item in value] if isinstance(value, list) else value
