"""PyTorch: the global hook of optimizer steps, the iterators of data loaders, and a few functions that are wrapped.

Only classes and functions of PyTorch are changed, never an object of the script: what is attached to an object would
end up in the files that the script saves. While torch.compile traces, everything here steps aside.

On CUDA an event is recorded on the current stream at each step, and the time between two events is read when both
have happened, so the script never waits for the observer. During the capture of a CUDA graph no event is recorded; a
captured optimizer step counts each time its graph is replayed.
"""

from __future__ import annotations

import functools
import gc
import importlib
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from types import ModuleType

    from trainmark.observe.step_counter import StepCounter

    Measure = Callable[[Any], tuple[int | None, int | None, bool]]

FRAMEWORK = "torch"
_SIZES = "_trainmark_batch_sizes"
"""Attribute of an iterator of a data loader, which is never saved."""
_SURE = 16
"""After so many batches without text, the batches of a data set are not looked into any more."""


def install(torch: ModuleType, counter: StepCounter, measure: Measure) -> None:
    watch = _Watch(torch, counter, measure)
    watch.optimizers()
    for part in (watch.data_loaders, watch.backward, watch.loss_scalers, watch.pauses, watch.cuda):
        try:
            part()
        except Exception as error:  # a part of another version of PyTorch looks different: the rest still works
            counter.recorder.fail(f"torch {part.__name__}", error)


class _Watch:
    def __init__(self, torch: Any, counter: StepCounter, measure: Measure) -> None:
        self._torch = torch
        self._counter = counter
        self._measure = measure
        self._has_looked_for_model = False
        self._num_steps_in_call = 0
        """Optimizer steps since the outermost call of a loss scaler began."""
        self._captured: list[int] = []
        """Optimizers that stepped since the capture of a graph began."""
        self._is_initialized: Callable[[], bool] = torch.cuda.is_initialized
        self._free_events: list[Any] = []
        """Events of steps that were written: to make one takes longer than to record it."""
        self._num_without_text: dict[int, int] = {}
        """Batches of each data set that were no text, one after the other."""
        compiler = getattr(torch, "compiler", None)
        self._is_tracing: Callable[[], bool] = getattr(compiler, "is_compiling", None) or (lambda: False)

    def _try(self, where: str, action: Callable[..., None], *args: Any) -> None:
        try:
            action(*args)
        except Exception as error:
            self._counter.recorder.fail(f"torch {where}", error)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def optimizers(self) -> None:
        is_tracing, attempt, step = self._is_tracing, self._try, self._step

        def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001
            if not is_tracing():
                attempt("step", step, optimizer)

        # torch.optim deletes its own attribute `optimizer`.
        importlib.import_module("torch.optim.optimizer").register_optimizer_step_post_hook(after_step)

    def _step(self, optimizer: Any) -> None:
        self._num_steps_in_call += 1
        if self._is_capturing():
            self._captured.append(id(optimizer))
            return
        self._counter.optimizer_step(id(optimizer), FRAMEWORK)
        if not self._has_looked_for_model and not self._counter.has_data_loader:
            self._has_looked_for_model = True
            self._watch_model([parameter for group in optimizer.param_groups for parameter in group["params"]])

    def backward(self) -> None:
        """For scripts that update the parameters themselves."""
        autograd, is_tracing, counter = self._torch.autograd, self._is_tracing, self._counter
        wrapped, attempt = autograd.backward, self._try

        @functools.wraps(wrapped)
        def backward(*args: Any, **kwargs: Any) -> Any:
            result = wrapped(*args, **kwargs)
            if counter.signal in (None, "backward") and not is_tracing():
                attempt("backward", self._after_backward)
            return result

        autograd.backward = backward

    def _after_backward(self) -> None:
        if self._is_capturing():
            return
        self._counter.backward(FRAMEWORK)
        if not self._has_looked_for_model and not self._counter.has_data_loader and self._counter.num_steps > 0:
            self._has_looked_for_model = True
            self._watch_model(None)

    def loss_scalers(self) -> None:
        """A step that the scaler skips calls no optimizer, but is a step that took time and samples."""
        scaler = importlib.import_module("torch.amp.grad_scaler").GradScaler
        wrapped, attempt, counter = scaler.step, self._try, self._counter

        @functools.wraps(wrapped)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = self._num_steps_in_call
            result = wrapped(scaler, optimizer, *args, **kwargs)
            if self._num_steps_in_call == before:
                attempt("scaler", counter.skipped_step, id(optimizer), FRAMEWORK)
            return result

        scaler.step = step

    # -- batches -------------------------------------------------------------------------------------------------------

    def data_loaders(self) -> None:
        """The number of indices that an iterator asks its data set for is the exact number of samples of a batch."""
        iterator = importlib.import_module("torch.utils.data.dataloader")._BaseDataLoaderIter
        begin, next_index, next_batch, reset = (
            iterator.__init__, iterator._next_index, iterator.__next__, iterator._reset)  # fmt: skip
        attempt, counter, is_grad_enabled = self._try, self._counter, self._torch.is_grad_enabled
        loaded, learn = self._loaded, _learn_size

        @functools.wraps(begin)
        def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            self.__dict__[_SIZES] = deque()
            begin(self, loader, *args, **kwargs)
            attempt("loader", counter.restart, id(self._dataset))

        @functools.wraps(reset)
        def _reset(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.__dict__[_SIZES] = deque()
            attempt("loader", counter.restart, id(self._dataset))
            return reset(self, *args, **kwargs)

        @functools.wraps(next_index)
        def _next_index(self: Any) -> Any:
            index = next_index(self)
            attempt("loader", learn, self, index)
            return index

        @functools.wraps(next_batch)
        def __next__(self: Any) -> Any:  # noqa: N807
            try:
                data = next_batch(self)
            except StopIteration:
                attempt("loader", counter.end_of_data, id(self._dataset))
                raise
            if is_grad_enabled():
                attempt("batch", loaded, self, data)
            else:
                attempt("batch", counter.evaluation_batch)
            return data

        iterator.__init__, iterator._next_index = __init__, _next_index
        iterator.__next__, iterator._reset = __next__, _reset

    def _loaded(self, iterator: Any, data: Any) -> None:
        sizes, source = iterator.__dict__.get(_SIZES), id(iterator._dataset)
        asked = sizes.popleft() if sizes else None
        if asked is not None and self._num_without_text.get(source, 0) >= _SURE:
            self._counter.batch(source, asked, None, False)
            return
        samples, tokens, is_language = self._measure(data)
        self._num_without_text[source] = self._num_without_text.get(source, 0) + 1 if tokens is None else 0
        self._counter.batch(source, asked or samples, tokens, is_language)

    def _watch_model(self, parameters: list[Any] | None) -> None:
        """Without a data loader, the inputs of the model say how large a batch is."""
        model = find_model(self._torch.nn.Module, "_modules", parameters)
        if model is None:
            return
        kind, called, is_tracing = type(model), type(model).__call__, self._is_tracing
        own, attempt, use = weakref.ref(model), self._try, self._use

        @functools.wraps(called)
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if not is_tracing() and own() is self:
                attempt("input", use, args, kwargs)
            return called(self, *args, **kwargs)

        # On its class: it is neither saved with the model nor seen by torch.jit or by other modules.
        kind.__call__ = __call__

    def _use(self, args: Any, kwargs: Any) -> None:
        if self._counter.has_data_loader:
            return
        if self._torch.is_grad_enabled():
            self._counter.batch("model", *self._measure([*args, kwargs]))
        else:
            self._counter.pause("eval")

    # -- pauses --------------------------------------------------------------------------------------------------------

    def pauses(self) -> None:
        """torch.save is a checkpoint; a module that goes to evaluation and back had an evaluation in between."""
        self._wrap(self._torch, "save", before=lambda *_: self._counter.pause("checkpoint"))
        module, is_tracing = self._torch.nn.Module, self._is_tracing
        evaluate, train, counter, is_inside = module.eval, module.train, self._counter, False
        evaluating: set[int] = set()

        @functools.wraps(evaluate)
        def eval(self: Any) -> Any:  # noqa: A001
            evaluating.add(id(self))
            return evaluate(self)

        @functools.wraps(train)
        def train_(self: Any, mode: bool = True) -> Any:
            # Only a direct call counts: a model that freezes some of its layers evaluates them at every step.
            nonlocal is_inside
            if not mode or not evaluating or is_inside or is_tracing():
                return train(self, mode)
            is_inside = True
            try:
                if id(self) in evaluating:
                    evaluating.discard(id(self))
                    counter.pause("eval")
                return train(self, mode)
            finally:
                is_inside = False

        module.eval, module.train = eval, train_

    def _wrap(self, owner: Any, name: str, *, before: Callable[..., None]) -> None:
        wrapped, attempt = getattr(owner, name), self._try

        @functools.wraps(wrapped)
        def function(*args: Any, **kwargs: Any) -> Any:
            attempt(name, before, *args)
            return wrapped(*args, **kwargs)

        setattr(owner, name, function)

    # -- CUDA ----------------------------------------------------------------------------------------------------------

    def cuda(self) -> None:
        self._counter.recorder.on_fork(self._forget_events)
        self._counter.add_clock(self)
        graph = self._torch.cuda.CUDAGraph
        steps: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()
        begin, end, replay, attempt = graph.capture_begin, graph.capture_end, graph.replay, self._try

        @functools.wraps(begin)
        def capture_begin(self_: Any, *args: Any, **kwargs: Any) -> Any:
            self._captured = []
            return begin(self_, *args, **kwargs)

        @functools.wraps(end)
        def capture_end(self_: Any) -> Any:
            result = end(self_)
            if self._captured:
                attempt("graph", steps.__setitem__, self_, self._captured)
                self._captured = []
            return result

        @functools.wraps(replay)
        def replay_(self_: Any) -> Any:
            result = replay(self_)
            for optimizer in steps.get(self_, ()):
                attempt("graph", self._counter.optimizer_step, optimizer, FRAMEWORK)
            return result

        graph.capture_begin, graph.capture_end, graph.replay = capture_begin, capture_end, replay_

    def _forget_events(self) -> None:
        self._counter.recorder.keep_forever(self._free_events)
        self._free_events = []

    def _is_capturing(self) -> bool:
        return self._is_initialized() and bool(self._torch.cuda.is_current_stream_capturing())

    def mark(self) -> Any:
        """None on a machine without CUDA, or where the script does not use it."""
        if not self._is_initialized() or self._torch.cuda.is_current_stream_capturing():
            return None
        try:
            event = self._free_events.pop()
            event.record()
        except (IndexError, RuntimeError):  # none is free, or it belongs to another device
            event = self._torch.cuda.Event(enable_timing=True)
            event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float | None:
        """Each event ends one step and begins the next, so `begin` is free when the time is known."""
        if not end.query():
            return None
        seconds = float(begin.elapsed_time(end)) / 1000
        self._free_events.append(begin)
        return seconds

    def unix_s(self, mark: Any) -> float | None:  # noqa: ARG002
        """Not known: an event tells only how long after another it was."""
        return None


def _learn_size(iterator: Any, index: Any) -> None:
    """Only where the loader makes the batches: otherwise an index may stand for one sample or for a whole batch."""
    if iterator._auto_collation and type(index) in (list, tuple) and not _is_iterable(type(iterator._dataset)):
        iterator.__dict__.setdefault(_SIZES, deque()).append(len(index))


_iterable_types: dict[Any, bool] = {}


def _is_iterable(kind: Any) -> bool:
    """An iterable data set may end within a batch."""
    if kind not in _iterable_types:
        _iterable_types[kind] = any(base.__name__ == "IterableDataset" for base in kind.__mro__)
    return _iterable_types[kind]


def find_model(module_type: type, children: str, parameters: list[Any] | None) -> Any:
    """The module that has most of the parameters (None: of all) and is part of no other module.

    `children`: the attribute with the parts of a module.
    """
    # By type(), not isinstance: that may run code of lazy objects.
    modules = [item for item in gc.get_objects() if issubclass(type(item), module_type)]
    parts = {id(part) for module in modules for part in getattr(module, children).values() if part is not None}
    roots = [module for module in modules if id(module) not in parts]
    wanted = None if parameters is None else {id(parameter) for parameter in parameters}
    sizes = []
    for root in roots:
        own = {id(parameter) for parameter in root.parameters()}
        sizes.append(len(own if wanted is None else own & wanted))
    return roots[sizes.index(max(sizes))] if sizes and max(sizes) > 0 else None
