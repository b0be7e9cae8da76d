"""env.json of a command: the machine's facts as for a built-in run, the packages of the command's own interpreter."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.runfolder.files import ENVIRONMENT_FILE, write_json

if TYPE_CHECKING:
    from trainmark.plan.machine import Machine

_ASK = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps({"python": sys.version.split()[0], "packages": found}))
"""


def write_environment(folder: Path, program: str, machine: Machine) -> None:
    from trainmark.worker.environment import describe_environment, describe_git

    device_name = machine.gpus[0].name if machine.gpus else None
    # The code that runs is the user's: the commit of the folder it is started in, not ours.
    git = describe_git(Path.cwd())
    facts = {"device_name": device_name, "driver": machine.driver, "git": git, **_software(program)}
    document = describe_environment(facts, gpu_index=0 if machine.gpus else None)
    write_json(folder / ENVIRONMENT_FILE, document)


def _software(program: str) -> dict[str, Any]:
    """Nothing to add where the program lies beside our interpreter: then our packages are its own."""
    path = Path(shutil.which(program) or program)
    if path.parent.resolve() == Path(sys.executable).parent.resolve():
        return {}
    unknown: dict[str, Any] = {"python": None, "packages": {}}
    if re.fullmatch(r"python[\d.]*", path.name) is None:
        return unknown
    from trainmark.worker.environment import PACKAGES

    try:
        done = subprocess.run([str(path), "-c", _ASK, *PACKAGES], capture_output=True, timeout=30, check=True)
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return unknown
    return answer if isinstance(answer, dict) else unknown
