"""Digests of the code of a parity check: a proof holds for this code only, and nothing of it may change meanwhile."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable

from trainmark.analyse.parity_command import deciding_variables
from trainmark.errors import RunError
from trainmark.frameworks import frameworks
from trainmark.worker.environment import recorded_variables
from trainmark.worker.training_code import PACKAGE, digest_files, engine_folder, read_training_code

_CHECK = (
    "analyse/distributions.py", "analyse/parity.py", "analyse/parity_trajectory.py", "analyse/parity_work.py",
    "controller/parity.py", "controller/parity_inputs.py", "controller/parity_probes.py", "weights/neutral.py",
    "worker/probe.py", "worker/probe_files.py",
)  # fmt: skip
"""What makes the inputs, observes the steps and judges them."""


class CodeChangedError(RunError):
    def __init__(self) -> None:
        why = "a check holds for one version of the code and of the frameworks"
        hint = "start it again, and update nothing until it has ended"
        super().__init__("trainmark or a framework was changed during the check", why=why, hint=hint)


class CodeWatch:
    """Processes that start later load what is on the disk then, and the proof would name what was there before."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def code_of(self, workload: str, framework: str) -> str:
        """As it was when this was first asked."""
        key = (workload, framework)
        if key not in self._known:
            self._known[key] = result_code(workload, framework)
        return self._known[key]

    def refuse_change(self, workload: str, framework: str) -> None:
        if self.has_changed(workload, framework):
            raise CodeChangedError

    def has_changed(self, workload: str, framework: str) -> bool:
        try:
            return self.code_of(workload, framework) != result_code(workload, framework)
        except OSError:  # a file is gone, as during an update
            return True


def result_code(workload: str, framework: str) -> str:
    """All that a result of a probe depends on besides its request, as it is now: versions, code and settings."""
    found = frameworks().load(framework)
    versions = [str(found.installed_version()), *found.versions_of_parts().values()]
    settings = json.dumps(deciding_variables(recorded_variables(os.environ, [framework]), framework))
    return " ".join([*versions, read_training_code(workload, framework), read_check_code([framework]), settings])


def check_code(names: Iterable[str]) -> str:
    """Of the check itself, for these frameworks. Each side's training has a digest of its own: `training_code`."""
    return _known_check_code(frozenset(names))


@functools.cache
def _known_check_code(names: frozenset[str]) -> str:
    return read_check_code(names)


def read_check_code(names: Iterable[str]) -> str:
    folders = (engine_folder(name) for name in sorted(set(names)))
    probes = [folder / "probe.py" for folder in folders if folder is not None]
    return digest_files([*(PACKAGE / name for name in _CHECK), *(path for path in probes if path.exists())])
