"""Dialects: every file in `dialects/` with a `DIALECT`, and those of other packages."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from trainmark import plugins
from trainmark.logs import dialects as built_in
from trainmark.logs.dialect import Dialect


@cache
def dialects() -> plugins.Registry[Dialect]:
    modules = (
        importlib.import_module(f"{built_in.__name__}.{module.name}")
        for module in pkgutil.iter_modules(built_in.__path__)
    )
    own: list[Dialect] = sorted((module.DIALECT for module in modules), key=lambda dialect: dialect.name)
    return plugins.Registry(
        plugins.DIALECTS, kind="dialect", built_in=plugins.loaders(own), check=plugins.expect(Dialect)
    )


@cache
def load_dialects() -> tuple[Dialect, ...]:
    """Those that can be used, built-in ones first."""
    return tuple(found.value for found in dialects().found())
