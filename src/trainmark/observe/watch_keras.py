"""Keras, on any backend: the batches of `fit`, as its callbacks see them.

A step is what `on_train_batch_end` reports: one batch, or several with `steps_per_execution`. A training loop of one's
own around a Keras model is not observed on TensorFlow; on PyTorch and JAX it is, by what those see.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from trainmark.observe.step_counter import StepCounter

FRAMEWORK = "keras"
_LISTS = ("keras.src.callbacks.callback_list", "keras.src.callbacks", "keras.callbacks")
"""Where versions of Keras have their list of callbacks."""


def install(keras: ModuleType, counter: StepCounter, measure: Any) -> None:  # noqa: ARG001
    watch = _Watch(counter)
    watch.batches()
    try:
        watch.data()
    except Exception as error:
        counter.recorder.fail("keras data", error)


class _Watch:
    def __init__(self, counter: StepCounter) -> None:
        self._counter = counter
        self._begin = 0
        self._newest: Any = None
        self._adapter: Any = None
        """The data of the `fit` that runs: the newest when it begins, since an evaluation in it has other data."""

    def batches(self) -> None:
        callbacks = _find_callbacks()
        for name, action in (
            ("on_train_begin", self._begin_training),
            ("on_train_batch_begin", self._begin_batch),
            ("on_train_batch_end", self._end_batch),
            ("on_epoch_begin", lambda *_: self._counter.pause("restart")),
            ("on_test_begin", lambda *_: self._counter.pause("eval")),
        ):
            self._after(callbacks, name, action)
        model = importlib.import_module("keras").Model
        for name in ("save", "save_weights"):
            self._after(model, name, lambda *_: self._counter.pause("checkpoint"))

    def _after(self, owner: Any, name: str, action: Callable[..., None]) -> None:
        wrapped, recorder = getattr(owner, name), self._counter.recorder

        @functools.wraps(wrapped)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = wrapped(self, *args, **kwargs)
            try:
                action(*args)
            except Exception as error:
                recorder.fail(f"keras {name}", error)
            return result

        setattr(owner, name, method)

    def data(self) -> None:
        iterator = importlib.import_module("keras.src.trainers.epoch_iterator").EpochIterator
        wrapped, watch = iterator.__init__, self

        @functools.wraps(wrapped)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            wrapped(self, *args, **kwargs)
            watch._newest = getattr(self, "data_adapter", None)

        iterator.__init__ = __init__

    def _begin_training(self, *_: Any) -> None:
        self._adapter = self._newest

    def _begin_batch(self, batch: int = 0, *_: Any) -> None:
        self._begin = batch

    def _end_batch(self, batch: int = 0, *_: Any) -> None:
        samples = self._samples(self._begin, batch)
        if samples is not None:
            self._counter.batch("fit", samples, None, False)
        self._counter.trained_batch(FRAMEWORK)

    def _samples(self, begin: int, end: int) -> int | None:
        size = getattr(self._adapter, "batch_size", None)
        if not size:
            return None
        samples = int(size) * (end - begin + 1)
        partial = getattr(self._adapter, "partial_batch_size", None)
        if partial and end + 1 == getattr(self._adapter, "num_batches", None):
            samples += int(partial) - int(size)
        return samples


def _find_callbacks() -> Any:
    for name in _LISTS:
        try:
            return importlib.import_module(name).CallbackList
        except (ImportError, AttributeError):
            continue
    raise ImportError("this version of Keras has no CallbackList")
