"""Dialects are found, not listed: every file in `dialects/`, and what other packages offer by an entry point."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points

from trainmark.errors import InputError
from trainmark.logs import dialects
from trainmark.logs.dialect import Dialect

GROUP = "trainmark.dialects"
"""An entry point of this group names a `Dialect`."""


@cache
def load_dialects() -> tuple[Dialect, ...]:
    own = [
        importlib.import_module(f"{dialects.__name__}.{module.name}").DIALECT
        for module in pkgutil.iter_modules(dialects.__path__)
    ]
    return (*sorted(own, key=lambda dialect: dialect.name), *_load_foreign())


def _load_foreign() -> tuple[Dialect, ...]:
    found = []
    for point in entry_points(group=GROUP):
        try:
            dialect = point.load()
        except Exception as error:  # somebody else's code: whatever it raises, ours says which package it is
            hint = "mend or remove the package that offers it"
            raise InputError(f"the dialect {point.name!r} cannot be loaded", why=str(error), hint=hint) from error
        if not isinstance(dialect, Dialect):
            raise InputError(
                f"the entry point {point.name!r} is no trainmark.logs.dialect.Dialect",
                why=f"it is a {type(dialect).__name__}",
                hint="let it name a Dialect",
            )
        found.append(dialect)
    return tuple(found)
