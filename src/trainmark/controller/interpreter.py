"""What another Python has installed, and where it would find a module, without importing anything of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.worker.environment import installed_versions

_LIMIT_S = 30.0
_MAX_ANSWER_BYTES = 1 << 20

# Runs in the interpreter of the command, which may be as old as Python 3.8. The empty entry of sys.path goes first: a
# json.py in the working folder must not be imported here. Finding a top-level module imports nothing, and below it
# only paths are searched.
_QUESTION = r"""
import sys
sys.path = [path for path in sys.path if path]
import importlib.machinery, importlib.metadata, importlib.util, json
module, cwd, names = sys.argv[1], sys.argv[2], sys.argv[3:]
found = {}
for name in names:
    try:
        found[name] = importlib.metadata.version(name)
    except Exception:
        pass
path = None
if module:
    try:
        sys.path.insert(0, cwd)
        top, *parts = module.split(".")
        spec = importlib.util.find_spec(top)
        for part in parts:
            spec = importlib.machinery.PathFinder.find_spec(part, list(spec.submodule_search_locations))
        if spec.submodule_search_locations is not None:
            inside = importlib.machinery.PathFinder.find_spec("__main__", list(spec.submodule_search_locations))
            spec = inside or spec
        path = spec.origin
    except Exception:
        pass
sys.stdout.write("\n" + json.dumps({"python": sys.version.split()[0], "packages": found, "path": path}))
"""


@dataclass(frozen=True, kw_only=True)
class Installed:
    python: str | None = None
    """Version; None if the interpreter is unknown or does not answer."""
    packages: Mapping[str, str] = field(default_factory=dict)
    module_path: Path | None = None
    """Of the module that was asked for."""


def read_interpreter(
    interpreter: str | None, names: Sequence[str], *, module: str | None, cwd: Path, variables: Mapping[str, str]
) -> Installed:
    """`variables` are set for the command, and may change where its packages are."""
    if interpreter is None:
        return Installed()
    if module is None and not variables.keys() & {"PYTHONPATH", "PYTHONHOME"} and _is_ours(interpreter):
        return Installed(python=sys.version.split()[0], packages=installed_versions(names))
    try:
        done = subprocess.run(
            [interpreter, "-c", _QUESTION, module or "", str(cwd), *names],
            cwd=cwd,
            env={**os.environ, **variables, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=True,
        )
        # Something that starts with every interpreter may have printed before.
        answer = json.loads(done.stdout[-_MAX_ANSWER_BYTES:].rsplit(b"\n", 1)[-1])
        path = answer["path"]
        return Installed(
            python=str(answer["python"]),
            packages={str(name): str(version) for name, version in answer["packages"].items()},
            module_path=cwd / path if isinstance(path, str) and (cwd / path).is_file() else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, subprocess.SubprocessError):
        return Installed()


def _is_ours(interpreter: str) -> bool:
    """In the same folder: a virtual environment is known by its folder, whatever its python is a link to."""
    return os.path.realpath(Path(interpreter).parent) == os.path.realpath(Path(sys.executable).parent)
