"""Samples and tokens of a batch, whatever structure a data loader or a model has for it.

Tensors of all frameworks have a `shape`, and nothing else of them is read. A batch of integers with two dimensions is
text: its tokens are all its elements, whichever dimension comes first.
"""

from __future__ import annotations

from typing import Any, Iterator

_MAX_DEPTH = 6
_MAX_TENSORS = 32
_INTEGERS = ("int64", "int32", "<dtype: 'int32'>", "<dtype: 'int64'>")
"""As PyTorch, Paddle, numpy and JAX name them, and as TensorFlow does."""


def measure(batch: Any) -> tuple[int | None, int | None, bool]:
    """Samples, tokens (None where it is not text), and whether it looks like next-token prediction.

    The samples are the first dimension of the first tensor, or the length of the first list where the tensors in it
    are single samples. Next-token prediction has targets of the same shape as its input, also integers.
    """
    found = (item for item in _walk(batch, 0) if _shape(item))
    tensors = [item for _, item in zip(range(_MAX_TENSORS), found)]
    if not tensors:
        return None, None, False
    shape = _shape(tensors[0]) or ()
    texts = [_shape(tensor) for tensor in tensors if _is_text(tensor)]
    if not _is_text(tensors[0]):
        return shape[0], None, False
    is_language = len(texts) > 1 and texts[1] == shape and not _has_masks_only(batch)
    return shape[0], shape[0] * shape[1], is_language


def _has_masks_only(batch: Any) -> bool:
    """Whether a dictionary has other integers of the same shape, but no targets among them."""
    keys = [str(key).lower() for key in batch] if isinstance(batch, dict) else []
    return bool(keys) and not any("label" in key or "target" in key for key in keys)


def _walk(value: Any, depth: int) -> Iterator[Any]:
    """The tensors inside, in order."""
    if depth > _MAX_DEPTH:
        return
    if _shape(value) is not None:
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _walk(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        if depth > 0 and _is_list_of_samples(value):  # the outermost list has the arguments, or the parts of a batch
            yield _Samples(len(value))
        for item in value[:_MAX_TENSORS]:
            yield from _walk(item, depth + 1)
    elif hasattr(value, "data") and not isinstance(value, (str, bytes)) and hasattr(value, "keys"):
        yield from _walk(value.data, depth + 1)  # BatchEncoding and the like


class _Samples:
    """Stands for a list whose items are samples of different sizes, as detection has them."""

    def __init__(self, length: int) -> None:
        self.shape = (length,)
        self.dtype = "float"


def _is_list_of_samples(values: Any) -> bool:
    """Tensors of three dimensions at the same place of each sample, or a list of dictionaries: images to detect in."""
    shapes = [_shape(item) for item in values[:_MAX_TENSORS]]
    if len(values) > 1 and all(shape is not None and len(shape) == 3 for shape in shapes):
        channels = {shape[0] for shape in shapes if shape is not None}
        return len(channels) == 1 and channels <= {1, 3, 4}
    return bool(values) and all(isinstance(item, dict) for item in values)


def _shape(value: Any) -> tuple[int, ...] | None:
    shape = getattr(value, "shape", None)
    if shape is None or isinstance(value, type):
        return None
    if type(shape) is tuple or type(shape).__name__ == "Size":  # of numpy, JAX and PyTorch
        return tuple(shape)
    try:
        return tuple(int(length) for length in shape)
    except (TypeError, ValueError):
        return None


def _is_text(tensor: Any) -> bool:
    shape = _shape(tensor)
    return shape is not None and len(shape) == 2 and shape[1] > 1 and _is_integer(getattr(tensor, "dtype", ""))


def _is_integer(dtype: Any) -> bool:
    """Kept by type: to make a name of one takes as long as all the rest."""
    try:
        known = _known_types.get(dtype)
    except TypeError:  # not hashable
        return False
    if known is None:
        known = _known_types[dtype] = str(dtype).replace("torch.", "").replace("paddle.", "") in _INTEGERS
    return known


_known_types: dict[Any, bool] = {}
