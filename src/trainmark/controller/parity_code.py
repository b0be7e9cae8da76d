"""Digests of trainmark's own code for a parity check: a proof holds for this code only."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from trainmark.frameworks import frameworks
from trainmark.worker.training_code import PACKAGE, digest_files, engine_folder, training_code

_CHECK = (
    "analyse/distributions.py", "analyse/parity.py", "analyse/parity_trajectory.py", "analyse/parity_work.py",
    "controller/parity.py", "controller/parity_inputs.py", "controller/parity_probes.py", "weights/neutral.py",
    "worker/probe.py", "worker/probe_files.py",
)  # fmt: skip
"""What makes the inputs, observes the steps and judges them."""


def check_code(names: Iterable[str]) -> str:
    """Of the check itself, for these frameworks. Each side's training has a digest of its own: `training_code`."""
    return _digest_check(tuple(sorted(set(names))))


def result_code(workload: str, framework: str) -> str:
    """All that a kept result of a probe depends on besides its request: versions and code."""
    found = frameworks().load(framework)
    versions = [str(found.installed_version()), *found.versions_of_parts().values()]
    return " ".join([*versions, training_code(workload, framework), check_code([framework])])


@functools.cache
def _digest_check(names: tuple[str, ...]) -> str:
    folders = (engine_folder(name) for name in names)
    probes = [folder / "probe.py" for folder in folders if folder is not None]
    return digest_files([*(PACKAGE / name for name in _CHECK), *(path for path in probes if path.exists())])
