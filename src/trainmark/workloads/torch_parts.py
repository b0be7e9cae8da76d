"""Parts of a network that are compiled one by one, each kind once, and by several processes at the same time.

A function that is marked `uncompiled` is plain Python; what it calls through `run_part` is compiled. While a helper
process compiles its share of the kinds into the cache, the others' kinds run as they are.
"""

from __future__ import annotations

import contextlib
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


@dataclass(kw_only=True)
class CompileShare:
    """The kinds of parts that this process compiles: those that it meets before any other process of its group does.

    So one that has a large part leaves the others to the rest, whatever the parts of a network are.
    """

    claims: Path
    """A folder of the group, with a file for every kind that one of it compiles."""
    compile: Callable[[Callable[..., Any]], Callable[..., Any]]
    _is_own: dict[Hashable, bool] = field(default_factory=dict)
    _compiled: dict[Callable[..., Any], Callable[..., Any]] = field(default_factory=dict)

    def run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        kind = _kind(function, args)
        if kind not in self._is_own:
            self._is_own[kind] = self._claim(len(self._is_own))
        if not self._is_own[kind]:
            return torch.compiler.disable(function)(*args)
        if function not in self._compiled:
            self._compiled[function] = self.compile(function)
        return self._compiled[function](*args)

    def _claim(self, number: int) -> bool:
        """All processes meet the kinds in the same order, so a number is enough."""
        try:
            (self.claims / str(number)).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


_share: CompileShare | None = None


@contextlib.contextmanager
def compiling(share: CompileShare) -> Iterator[None]:
    global _share
    before, _share = _share, share
    try:
        yield
    finally:
        _share = before


@uncompiled
def run_part(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args) if _share is None else _share.run(function, args)


def _kind(function: Callable[..., Any], args: tuple[Any, ...]) -> Hashable:
    """Two calls of the same kind share their compiled code."""
    shapes: list[Hashable] = []
    for leaf in _pytree.tree_leaves(args):
        if isinstance(leaf, Tensor):
            shapes.append(tuple(leaf.shape))
        elif isinstance(leaf, nn.Module):
            shapes.append(tuple((tuple(p.shape), p.requires_grad) for p in leaf.parameters()))
        else:
            shapes.append(leaf if isinstance(leaf, Hashable) else None)
    return function.__module__, function.__qualname__, tuple(shapes)
