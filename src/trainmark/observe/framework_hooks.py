"""Loaded by the hook when the first framework has been imported: starts the module that watches a framework."""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

_recorder: Any = None
_counter: Any = None
"""One for all frameworks of the process."""


def install(framework: ModuleType, folder: str) -> None:
    """Called with a framework that has just been imported. An exception becomes a note in the run."""
    global _recorder, _counter
    if _recorder is None:
        _recorder = load("recorder").Recorder(folder)
        _counter = load("step_counter").StepCounter(_recorder)
        _recorder.on_exit(_record_modules)
    name = framework.__name__
    _recorder.note("framework", f"{name} {getattr(framework, '__version__', '')}".strip())
    try:
        load(f"watch_{name}").install(framework, _counter, load("batch_size").measure)
    except Exception as error:
        _recorder.fail(f"watching {name}", error)


def _record_modules() -> None:
    """Only of a process that trains: others, such as data loaders, import the same."""
    _recorder.flush()
    if _recorder.has_steps:
        _recorder.record(kind="modules", modules=load("local_modules").local_modules())


def load(name: str) -> ModuleType:
    """A module beside this one, by its path: the interpreter may have no trainmark, or another one."""
    full_name = f"_trainmark_observe_{name}"
    if full_name not in sys.modules:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
        spec = importlib.util.spec_from_file_location(full_name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[full_name] = module
    return sys.modules[full_name]
