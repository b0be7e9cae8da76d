"""Reads a pickle as data. Nothing in it is ever imported, called or set: this is an interpreter of its own.

Python's unpickler does what a file says: it imports names and calls them. Files of weights need very little of that, so
the standard library only cuts the file into opcodes here (`pickletools.genops`), and the stack machine below knows
plain values and containers. A name of the file becomes a `Name`, and a call of one becomes whatever the reader of that
kind of file does for this name; any name that a reader does not list is refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from trainmark.weights.neutral import WeightsError

MAX_OPCODES = 5_000_000
"""HRNet, the largest of our models in tensors, has 40,000."""
_VALUES = frozenset(
    {
        "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
        "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES",
        "BINBYTES8", "BYTEARRAY8",
    }
)  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = frozenset({"PROTO", "FRAME"})


@dataclass(frozen=True)
class Name:
    """Of something in a Python module. Only compared, never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"[:200]


class Built(Protocol):
    """Made by a call, and completed with a state afterwards, as numpy does it."""

    def build(self, state: Any) -> None: ...


class Nothing:
    """In place of an object that no weights depend on, such as the options of a training."""

    def build(self, state: Any) -> None:
        pass


Calls = Mapping[tuple[str, str], Callable[..., Any]]
"""What a call of each known name means: module and name to a function of our own."""


def read_pickle(file: BinaryIO, calls: Calls, *, resolve: Callable[[Any], Any] | None = None) -> Any:
    """The value at the file's position; `resolve` gives the meaning of a reference to data outside the pickle."""
    machine = _Machine(calls, resolve)
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(file)):
            if number > MAX_OPCODES:
                raise WeightsError("too many opcodes", why=f"over {MAX_OPCODES:,}")
            if opcode.name == "STOP":
                return machine.pop()
            machine.do(opcode.name, argument)
    except WeightsError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError) as error:
        raise WeightsError(
            "damaged, or not a pickle", why=str(error).splitlines()[0][:200] or "it ends early"
        ) from error
    raise WeightsError("damaged, or not a pickle", why="it ends early")


class _Machine:
    def __init__(self, calls: Calls, resolve: Callable[[Any], Any] | None) -> None:
        self._calls, self._resolve = calls, resolve
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def do(self, opcode: str, argument: Any) -> None:
        if opcode in _VALUES:
            self._stack.append(argument)
        elif opcode in _CONSTANTS:
            self._stack.append(_CONSTANTS[opcode])
        elif opcode in _TUPLES:
            count = _TUPLES[opcode]
            self._stack.append(tuple(self.pop() for _ in range(count))[::-1])
        elif opcode not in _IGNORED:
            act = getattr(self, f"_do_{opcode.lower()}", None)
            if act is None:
                raise WeightsError("it is not a file of weights", why=f"it uses the pickle opcode {opcode}")
            act(argument)

    def pop(self) -> Any:
        return self._stack.pop()

    def _pop_mark(self) -> list[Any]:
        mark = self._marks.pop()
        items, self._stack[mark:] = self._stack[mark:], []
        return items

    # -- the stack and the memo ----------------------------------------------------------------------------------------

    def _do_mark(self, _: Any) -> None:
        self._marks.append(len(self._stack))

    def _do_pop(self, _: Any) -> None:
        self.pop()

    def _do_pop_mark(self, _: Any) -> None:
        self._pop_mark()

    def _do_dup(self, _: Any) -> None:
        self._stack.append(self._stack[-1])

    def _do_memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _do_put(self, argument: Any) -> None:
        self._memo[int(argument)] = self._stack[-1]

    _do_binput = _do_long_binput = _do_put

    def _do_get(self, argument: Any) -> None:
        self._stack.append(self._memo[int(argument)])

    _do_binget = _do_long_binget = _do_get

    # -- containers ----------------------------------------------------------------------------------------------------

    def _do_empty_list(self, _: Any) -> None:
        self._stack.append([])

    _do_empty_set = _do_empty_list

    def _do_empty_dict(self, _: Any) -> None:
        self._stack.append({})

    def _do_list(self, _: Any) -> None:
        self._stack.append(self._pop_mark())

    _do_frozenset = _do_list

    def _do_tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._pop_mark()))

    def _do_dict(self, _: Any) -> None:
        items = self._pop_mark()
        self._stack.append({})
        self._put_items(items)

    def _do_append(self, _: Any) -> None:
        item = self.pop()
        self._top(list).append(item)

    def _do_appends(self, _: Any) -> None:
        items = self._pop_mark()
        self._top(list).extend(items)

    _do_additems = _do_appends

    def _do_setitem(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self._put_items([key, value])

    def _do_setitems(self, _: Any) -> None:
        self._put_items(self._pop_mark())

    def _put_items(self, items: list[Any]) -> None:
        target = self._top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | int | float | None):  # the hash of a deeply nested key could end the process
                raise TypeError(f"a key of type {type(key).__name__}")
            target[key] = value

    def _top(self, kind: type) -> Any:
        if not isinstance(self._stack[-1], kind):
            raise TypeError(f"expected a {kind.__name__}, found {type(self._stack[-1]).__name__}")
        return self._stack[-1]

    # -- names and calls -----------------------------------------------------------------------------------------------

    def _do_global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._push_name(module, name)

    def _do_stack_global(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        self._push_name(module, name)

    def _push_name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError("a name that is not text")
        found = Name(module, name)
        if (module, name) not in self._calls:
            why = f"it names {found}, which weights do not need and which could run code"
            raise WeightsError("it is not a file of weights only", why=why)
        self._stack.append(found)

    def _do_reduce(self, _: Any) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, Name) or not isinstance(arguments, tuple):
            raise TypeError("a call of something that is not a name")
        self._stack.append(self._calls[function.module, function.name](*arguments))

    _do_newobj = _do_reduce

    def _do_newobj_ex(self, _: Any) -> None:
        self.pop()
        self._do_reduce(None)

    def _do_build(self, _: Any) -> None:
        state, target = self.pop(), self._stack[-1]
        if isinstance(target, dict):  # an ordered dict with attributes, such as the metadata of a state dict
            return
        if isinstance(target, Name) or not hasattr(target, "build"):
            raise TypeError("a state for something that has none")
        target.build(state)

    def _do_binpersid(self, _: Any) -> None:
        if self._resolve is None:
            raise WeightsError("it is not a file of weights", why="it refers to data outside of it")
        self._stack.append(self._resolve(self.pop()))
