"""Parts of a network that are compiled one by one, each kind once, and by several processes at the same time.

A function that is marked `uncompiled` is plain Python; what it calls through `run_part` is compiled. While a helper
process compiles its share of the kinds into the cache, the others' kinds run as they are. So a part must return tensors
of the same type and layout in both ways: the next part is compiled for what it is given.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree

_F = TypeVar("_F", bound=Callable[..., Any])


def uncompiled(function: _F) -> _F:
    """Python runs this itself."""
    plain: _F = torch.compiler.disable(function, recursive=False)
    return plain


def _hidden(function: _F) -> _F:
    """Python runs this itself, and everything that it calls."""
    plain: _F = torch.compiler.disable(function)
    return plain


@dataclass(kw_only=True)
class CompileShare:
    """The kinds of parts that this process compiles: those that it meets before any other process of its group does.

    So one that has a large part leaves the others to the rest, whatever the parts of a network are.
    """

    claims: Path
    """A folder of the group, with a file for every kind that one of it compiles or has compiled."""
    compile: Callable[[Callable[..., Any]], Callable[..., Any]]
    _is_own: dict[Hashable, bool] = field(default_factory=dict)
    _compiled: dict[Callable[..., Any], Callable[..., Any]] = field(default_factory=dict)
    _claimed: list[int] = field(default_factory=list)
    """Open files."""

    @_hidden
    def choose(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
        """What to call instead of `function`. The call is the caller's: it must not be hidden from the compiler."""
        kind = _kind(function, args)
        if kind not in self._is_own:
            self._is_own[kind] = self._claim(kind)
        if not self._is_own[kind]:
            return _hidden(function)
        if function not in self._compiled:
            self._compiled[function] = self.compile(function)
        return self._compiled[function]

    def end(self, *, is_done: bool) -> None:
        """`is_done`: what was claimed is in the cache. Otherwise it is there for others to claim."""
        for file in self._claimed:
            if is_done:
                os.write(file, b"done")
            os.close(file)
        self._claimed.clear()

    def _claim(self, kind: Hashable) -> bool:
        """By a lock: the system takes it back from a process that dies, for instance because memory ran out."""
        path = self.claims / hashlib.sha256(repr(kind).encode()).hexdigest()
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        if os.fstat(file).st_size > 0:
            os.close(file)
            return False
        self._claimed.append(file)
        return True


_share: CompileShare | None = None


@contextlib.contextmanager
def compiling(share: CompileShare) -> Iterator[None]:
    global _share
    before, _share = _share, share
    is_done = False
    try:
        yield
        is_done = True
    finally:
        _share = before
        share.end(is_done=is_done)


@uncompiled
def run_part(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args) if _share is None else _share.choose(function, args)(*args)


def _kind(function: Callable[..., Any], args: tuple[Any, ...]) -> Hashable:
    """Two calls of the same kind share their compiled code. Written out it is the same in every process."""
    facts: list[Hashable] = []
    for leaf in _pytree.tree_leaves(args):
        if isinstance(leaf, Tensor):
            facts.append(_facts(leaf))
        elif isinstance(leaf, nn.Module):
            facts.append(tuple(_facts(parameter) for parameter in leaf.parameters()))
        else:
            facts.append(leaf if isinstance(leaf, (int, float, str)) else type(leaf).__qualname__)
    return function.__module__, function.__qualname__, tuple(facts)


def _facts(x: Tensor) -> Hashable:
    return tuple(x.shape), x.stride(), x.dtype, x.requires_grad
