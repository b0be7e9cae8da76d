"""JAX has no optimizer of its own, and what it compiles calls no Python: a step is a call of the function that trains.

`jax.jit` and `jax.pmap` return what they always return, inside an object that counts its calls. A function trains if a
gradient is taken (`grad`, `value_and_grad`, `vjp`) while it is traced; each later call of it is a step. Its batch is
the arguments that it does not also return: the state goes in and comes out with the same shapes. Without `jit`, each
call of a gradient is a step.

JAX returns from a step before it is computed, and the script may not wait for hundreds of steps. So a thread of ours
waits for a small result of each step and notes when it was there; the script itself never waits. A result that a later
step reuses (donation) cannot be waited for; another one is used then, and where there is none, the step has the time of
its start and says so (`dispatched`).

Steps inside `lax.scan` count as one, and functions compiled ahead of time (`lower().compile()`) are not seen.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from trainmark.observe.step_counter import StepCounter

    Measure = Callable[[Any], tuple[int | None, int | None, bool]]

FRAMEWORK = "jax"
_MOST_RESULTS = 4
"""Of each step that are kept until it is done."""
_AT_EXIT_S = 60.0
"""A thread that waits inside JAX while Python ends would abort the process."""


def install(jax: ModuleType, counter: StepCounter, measure: Measure) -> None:
    watch = _Watch(jax, counter, measure)
    counter.add_clock(watch.results)
    for name in ("jit", "pmap"):
        watch.wrap_compiler(name)
    for name in ("grad", "value_and_grad", "vjp"):
        watch.wrap_gradient(name)


class _Watch:
    def __init__(self, jax: Any, counter: StepCounter, measure: Measure) -> None:
        self._jax = jax
        self._measure = measure
        self.counter = counter
        self.results = _Results(jax, counter)
        self.running: list[_Compiled] = []
        """Compiled functions that are being called, the outermost first."""

    def fail(self, where: str, error: BaseException) -> None:
        self.counter.recorder.fail(f"jax {where}", error)

    def wrap_compiler(self, name: str) -> None:
        wrapped = getattr(self._jax, name)

        @functools.wraps(wrapped)
        def compiler(*args: Any, **kwargs: Any) -> Any:
            made = wrapped(*args, **kwargs)
            if not args and not hasattr(made, "lower"):  # jit(static_argnames=...) returns a decorator
                return lambda function: _Compiled(made(function), self)
            return _Compiled(made, self)

        setattr(self._jax, name, compiler)

    def wrap_gradient(self, name: str) -> None:
        """`vjp` takes the gradient at once; the others return a function that does."""
        wrapped = getattr(self._jax, name)

        @functools.wraps(wrapped)
        def gradient(*args: Any, **kwargs: Any) -> Any:
            if name == "vjp":
                self.note_gradient()
                return wrapped(*args, **kwargs)
            made = wrapped(*args, **kwargs)

            @functools.wraps(made)
            def function(*inner: Any, **named: Any) -> Any:
                result = made(*inner, **named)
                self.note_gradient(result)
                return result

            return function

        setattr(self._jax, name, gradient)

    def note_gradient(self, result: Any = None) -> None:
        try:
            if self.running:
                self.running[0].is_training = True
            else:
                self.results.newest = result
                self.counter.backward(FRAMEWORK)
        except Exception as error:
            self.fail("gradient", error)

    def shapes(self, value: Any) -> tuple[Any, ...]:
        leaves = self._jax.tree_util.tree_leaves(value)
        return tuple((tuple(leaf.shape), str(leaf.dtype)) for leaf in leaves if hasattr(leaf, "shape"))

    def find_batch(self, args: tuple[Any, ...], given: list[tuple[Any, ...]], result: Any) -> list[int]:
        """Which arguments are the batch; `given` has the shapes of each, from before the call."""
        parts = [result, *(result if isinstance(result, (tuple, list)) else ())]
        returned = {self.shapes(part) for part in parts}
        return [place for place in range(len(args)) if given[place] not in returned and _is_data(given[place])]

    def use(self, args: tuple[Any, ...], places: list[int]) -> None:
        self.counter.batch("function", *self._measure([args[place] for place in places]))


class _Mark:
    """The end of a step: `done` is set by the thread, the times are NaN if it could not wait."""

    __slots__ = ("clock_s", "done", "time_s")

    def __init__(self) -> None:
        self.done = False
        self.clock_s = self.time_s = float("nan")


class _Results:
    """The clock of JAX: notes when the results of steps are there."""

    def __init__(self, jax: Any, counter: StepCounter) -> None:
        self._jax, self._counter = jax, counter
        self.newest: Any = None
        """What the last step returned, until it is marked."""
        self._places: dict[int, list[int]] = {}
        """Which results to wait for, by the number of results: sizes are looked at once."""
        self._begin()
        counter.recorder.on_fork(self._begin)
        counter.recorder.on_exit(self._end)

    def _begin(self) -> None:
        self._queue: Any = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def mark(self) -> _Mark | None:
        """None where the step is not one of JAX."""
        result, self.newest = self.newest, None
        if result is None:
            return None
        mark = _Mark()
        leaves = self._jax.tree_util.tree_leaves(result)
        places = self._places.get(len(leaves))
        if places is None:
            places = self._places[len(leaves)] = _choose(leaves)
        if self._thread is None:
            self._thread = threading.Thread(target=self._wait, args=(self._queue,), daemon=True, name="trainmark")
            self._thread.start()
        self._queue.put((mark, places, [(place, leaves[place]) for place in places]))
        return mark

    def _wait(self, items: Any) -> None:
        while True:
            item = items.get()
            if item is None:
                return
            mark, places, leaves = item
            for place, leaf in leaves:
                try:
                    leaf.block_until_ready()
                except Exception:  # a later step has reused it, or it holds an error that is the script's own
                    places.sort(key=place.__eq__)  # last from now on
                    continue
                mark.clock_s, mark.time_s = time.perf_counter(), time.time()
                break
            mark.done = True
            del item, leaves, mark

    def seconds(self, begin: _Mark, end: _Mark) -> float | None:
        return end.clock_s - begin.clock_s if end.done else None

    def unix_s(self, mark: _Mark) -> float | None:
        return mark.time_s

    def _end(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(_AT_EXIT_S)


def _choose(leaves: list[Any]) -> list[int]:
    """The smallest: to keep them takes no memory that the script needs."""
    known = [place for place, leaf in enumerate(leaves) if hasattr(leaf, "block_until_ready")]
    return sorted(known, key=lambda place: int(leaves[place].size))[:_MOST_RESULTS]


class _Compiled:
    """Stands for a compiled function: all but a call goes to it unchanged."""

    def __init__(self, function: Any, watch: _Watch) -> None:
        functools.update_wrapper(self, function)
        self._function, self._watch = function, watch
        self.is_training = False
        self._places: list[int] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        watch = self._watch
        if watch.running:  # part of another compiled function
            return self._function(*args, **kwargs)
        watch.running.append(self)
        given = self._describe(args) if self._places is None else None
        try:
            result = self._function(*args, **kwargs)
        finally:
            watch.running.pop()
        if self.is_training:
            try:
                if self._places is None and given is not None:
                    self._places = watch.find_batch(args, given, result)
                watch.use(args, self._places or [])
                watch.results.newest = result
                watch.counter.optimizer_step(id(self), FRAMEWORK)
            except Exception as error:
                watch.fail("step", error)
        return result

    def _describe(self, args: tuple[Any, ...]) -> list[tuple[Any, ...]] | None:
        try:
            return [self._watch.shapes(value) for value in args]
        except Exception as error:
            self._watch.fail("arguments", error)
            return None

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        """As a method."""
        return self if owner is None else functools.partial(self, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_function"], name)

    def __repr__(self) -> str:
        return repr(self._function)

    def __hash__(self) -> int:
        return hash(self._function)

    def __eq__(self, other: object) -> bool:
        return bool(self._function == (other._function if isinstance(other, _Compiled) else other))


def _is_data(shapes: tuple[Any, ...]) -> bool:
    """Arrays with a dimension, other than the key of a random generator."""
    keys = (((2,), "uint32"), ((), "key<fry>"))
    return any(shape and (shape, kind) not in keys for shape, kind in shapes)
