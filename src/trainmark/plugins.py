"""Find what can be extended: the built-in workloads, engines, dialects, ..., and those of other packages.

Another package offers one by an entry point in the group of its kind, under the name that people type:

    [project.entry-points."trainmark.dialects"]
    mylog = "mypackage.mylog:DIALECT"

Entry points are read only when a registry is used, and a plugin is imported only when it is needed. A plugin that
cannot be used is an error for whoever asks for it by name and is left out everywhere else.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from trainmark.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

WORKLOADS = "trainmark.workloads"
ENGINES = "trainmark.engines"
DIALECTS = "trainmark.dialects"
LAUNCHERS = "trainmark.launchers"
EXPORTS = "trainmark.exports"
FORMATS = "trainmark.formats"

T = TypeVar("T")


class Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where something comes from."""

    distribution: str | None = None
    """The installed package; None: built-in."""
    version: str = ""

    def __str__(self) -> str:
        return "built-in" if self.distribution is None else f"{self.distribution} {self.version}".strip()


@dataclass(frozen=True, kw_only=True)
class BrokenPlugin:
    name: str
    origin: Origin
    group: str
    value: str
    """The object that the entry point names."""
    reason: str

    def __str__(self) -> str:
        point = f"entry point {self.group}: {self.name} = {self.value}"
        return f"plugin {self.name!r} of {self.origin} cannot be used ({point}): {self.reason}"

    @property
    def hint(self) -> str:
        return f"fix or uninstall {self.origin.distribution}"


@dataclass(frozen=True, kw_only=True)
class Found(Generic[T]):
    name: str
    origin: Origin
    value: T


class Registry(Generic[T]):
    """Everything of one kind, by name."""

    def __init__(
        self,
        group: str,
        *,
        kind: str,
        built_in: Mapping[str, Callable[[], T]],
        check: Callable[[str, object], T],
    ) -> None:
        """`built_in` has a loader for each name.

        `check` gets the name and the object of an entry point and returns what it stands for; it raises TypeError or
        ValueError with the reason where it cannot.
        """
        self._group, self._kind, self._built_in, self._check = group, kind, built_in, check
        self._loaded: dict[str, T] = {}
        self._failed: dict[str, str] = {}

    def names(self) -> tuple[str, ...]:
        """All that can be asked for, broken ones included. Imports no plugin."""
        return (*self._built_in, *(name for name in self._points if name not in self._built_in))

    def origins(self) -> dict[str, Origin]:
        """By name, built-in ones first. Imports no plugin."""
        own = dict.fromkeys(self._built_in, Origin())
        return {**{name: _origin(points[0]) for name, points in self._points.items()}, **own}

    def load(self, name: str) -> T:
        """Raise InputError where `name` is unknown or belongs to a broken plugin."""
        if name not in self._built_in and name not in self._points:
            close = difflib.get_close_matches(name, self.names(), n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise InputError(f"unknown {self._kind} {name!r}", hint=f"{hint}known: {', '.join(self.names())}")
        broken = self._find_broken(name)
        if broken is not None:
            raise InputError(f"the {self._kind} {name!r} cannot be used", why=str(broken), hint=broken.hint)
        return self._load(name)

    def found(self) -> tuple[Found[T], ...]:
        """All that can be used, built-in ones first."""
        foreign = [name for name in self._points if self._find_broken(name) is None]
        origins = self.origins()
        return tuple(
            Found(name=name, origin=origins[name], value=self._load(name)) for name in (*self._built_in, *foreign)
        )

    def broken(self) -> tuple[BrokenPlugin, ...]:
        return tuple(broken for name in self._points if (broken := self._find_broken(name)) is not None)

    @cached_property
    def _points(self) -> dict[str, tuple[EntryPoint, ...]]:
        from importlib.metadata import entry_points  # 30 ms

        found: dict[str, tuple[EntryPoint, ...]] = {}
        for point in sorted(entry_points(group=self._group), key=lambda point: point.name):
            found[point.name] = (*found.get(point.name, ()), point)
        return found

    def _load(self, name: str) -> T:
        if name not in self._loaded:
            own = self._built_in.get(name)
            self._loaded[name] = own() if own else self._check(name, self._points[name][0].load())
        return self._loaded[name]

    def _find_broken(self, name: str) -> BrokenPlugin | None:
        points = self._points.get(name, ())
        if not points:
            return None
        if name not in self._failed:
            self._failed[name] = self._why_broken(name, points)
        reason = self._failed[name]
        if not reason:
            return None
        first = points[0]
        return BrokenPlugin(name=name, origin=_origin(first), group=self._group, value=first.value, reason=reason)

    def _why_broken(self, name: str, points: tuple[EntryPoint, ...]) -> str:
        """Empty: it can be used."""
        if name in self._built_in:
            return f"the name is already used by a built-in {self._kind}"
        if len(points) > 1:
            others = " and ".join(str(_origin(point)) for point in points[1:])
            return f"the name is also used by {others}"
        try:
            self._load(name)
        except (Exception, SystemExit) as error:  # the code of others may raise anything when it is imported
            return f"{type(error).__name__}: {error}".removesuffix(": ")
        return ""


def loaders(values: Iterable[N]) -> dict[str, Callable[[], N]]:
    """The `built_in` of a registry whose values are at hand."""
    return {value.name: partial(_same, value) for value in values}


def _same(value: T) -> T:
    return value


def expect(kind: type[N]) -> Callable[[str, object], N]:
    """The check of a registry whose entry points name an object of type `kind` with the same name."""

    def check(name: str, value: object) -> N:
        if not isinstance(value, kind):
            raise TypeError(f"expected a {kind.__module__}.{kind.__qualname__}, got {type(value).__name__}")
        if value.name != name:
            raise ValueError(f"its name is {value.name!r}, the entry point's is {name!r}")
        return value

    return check


def _origin(point: EntryPoint) -> Origin:
    distribution = point.dist
    if distribution is None:
        return Origin(distribution="an unknown package")
    return Origin(distribution=distribution.name, version=distribution.version)
