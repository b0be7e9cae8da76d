"""Paddle, dynamic graph: the step of every optimizer, the iterators of data loaders, save, and eval of layers.

Times are those of the host: on a GPU single steps may look too short or too long, but their sum is right. A static
graph runs its optimizer inside `Executor.run` and is not observed.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from trainmark.observe.step_counter import StepCounter

    Measure = Callable[[Any], tuple[int | None, int | None, bool]]

FRAMEWORK = "paddle"


def install(paddle: ModuleType, counter: StepCounter, measure: Measure) -> None:
    watch = _Watch(paddle, counter, measure)
    watch.optimizers()
    for part in (watch.data_loaders, watch.loss_scalers, watch.pauses):
        try:
            part()
        except Exception as error:
            counter.recorder.fail(f"paddle {part.__name__}", error)


class _Watch:
    def __init__(self, paddle: Any, counter: StepCounter, measure: Measure) -> None:
        self._paddle = paddle
        self._counter = counter
        self._measure = measure
        self._depth = 0
        self._num_steps = 0

    def _try(self, where: str, action: Callable[..., None], *args: Any) -> None:
        try:
            action(*args)
        except Exception as error:
            self._counter.recorder.fail(f"paddle {where}", error)

    def optimizers(self) -> None:
        """Subclasses have a `step` of their own, and some call that of their base class or of another optimizer."""
        for kind in _with_subclasses(self._paddle.optimizer.Optimizer):
            for name in ("step", "minimize"):
                if name in kind.__dict__:
                    setattr(kind, name, self._counting(kind.__dict__[name]))

    def _counting(self, wrapped: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(wrapped)
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                result = wrapped(optimizer, *args, **kwargs)
            finally:
                self._depth -= 1
            if self._depth == 0:
                self._try("step", self._step, optimizer)
            return result

        return step

    def _step(self, optimizer: Any) -> None:
        if self._paddle.in_dynamic_mode():
            self._num_steps += 1
            self._counter.optimizer_step(id(optimizer), FRAMEWORK)

    def loss_scalers(self) -> None:
        scaler = self._paddle.amp.GradScaler
        wrapped, attempt, counter = scaler.step, self._try, self._counter

        @functools.wraps(wrapped)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = self._num_steps
            result = wrapped(scaler, optimizer, *args, **kwargs)
            if self._num_steps == before:
                attempt("scaler", counter.skipped_step, id(optimizer), FRAMEWORK)
            return result

        scaler.step = step

    def data_loaders(self) -> None:
        iterators = importlib.import_module("paddle.io.dataloader.dataloader_iter")
        base, attempt, counter = iterators._DataLoaderIterBase, self._try, self._counter
        begin = base.__init__

        @functools.wraps(begin)
        def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            begin(self, loader, *args, **kwargs)
            attempt("loader", counter.restart, id(self._dataset))

        base.__init__ = __init__
        for kind in (iterators._DataLoaderIterSingleProcess, iterators._DataLoaderIterMultiProcess):
            kind.__next__ = self._counting_batches(kind.__next__)

    def _counting_batches(self, wrapped: Callable[[Any], Any]) -> Callable[[Any], Any]:
        attempt, counter, is_grad_enabled = self._try, self._counter, self._paddle.is_grad_enabled

        def use(iterator: Any, data: Any) -> None:
            counter.batch(id(iterator._dataset), *self._measure(data))

        @functools.wraps(wrapped)
        def __next__(self: Any) -> Any:  # noqa: N807
            try:
                data = wrapped(self)
            except StopIteration:
                attempt("loader", counter.end_of_data, id(self._dataset))
                raise
            if is_grad_enabled():
                attempt("batch", use, self, data)
            else:
                attempt("batch", counter.evaluation_batch)
            return data

        return __next__

    def pauses(self) -> None:
        paddle, counter, attempt = self._paddle, self._counter, self._try
        save, layer = paddle.save, paddle.nn.Layer
        evaluate, train = layer.eval, layer.train
        evaluating: set[int] = set()

        @functools.wraps(save)
        def save_(*args: Any, **kwargs: Any) -> Any:
            attempt("save", counter.pause, "checkpoint")
            return save(*args, **kwargs)

        @functools.wraps(evaluate)
        def eval_(self: Any) -> Any:
            evaluating.add(id(self))
            return evaluate(self)

        @functools.wraps(train)
        def train_(self: Any) -> Any:
            if id(self) in evaluating:
                evaluating.discard(id(self))
                attempt("train", counter.pause, "eval")
            return train(self)

        paddle.save, layer.eval, layer.train = save_, eval_, train_


def _with_subclasses(kind: Any) -> Iterator[Any]:
    yield kind
    for child in kind.__subclasses__():
        yield from _with_subclasses(child)
