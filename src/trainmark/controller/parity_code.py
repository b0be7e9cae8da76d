"""Digests of trainmark's own code for a parity check: a proof holds for this code only."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from trainmark.errors import InputError
from trainmark.frameworks import frameworks
from trainmark.worker.training_code import PACKAGE, digest_files, engine_folder, read_training_code, training_code

_CHECK = (
    "analyse/distributions.py", "analyse/parity.py", "analyse/parity_trajectory.py", "analyse/parity_work.py",
    "controller/parity.py", "controller/parity_inputs.py", "controller/parity_probes.py", "weights/neutral.py",
    "worker/probe.py", "worker/probe_files.py",
)  # fmt: skip
"""What makes the inputs, observes the steps and judges them."""


def check_code(names: Iterable[str]) -> str:
    """Of the check itself, for these frameworks. Each side's training has a digest of its own: `training_code`."""
    return _known_check_code(frozenset(names))


def remember_code(workload: str, names: Sequence[str]) -> None:
    """As it is now, before any process of the check has started."""
    check_code(names)
    for name in names:
        training_code(workload, name)
        check_code([name])


def refuse_changed_code(workload: str, names: Sequence[str]) -> None:
    """A process that starts now loads what is on the disk now, and the proof would name what was there before."""
    if _has_changed(workload, names):
        why = "a check holds for one version of the code, and its processes have loaded two"
        hint = "start it again, and leave the installation as it is until it has ended"
        raise InputError("the files of trainmark have changed during the check", why=why, hint=hint)


def _has_changed(workload: str, names: Sequence[str]) -> bool:
    try:
        is_same = all(training_code(workload, name) == read_training_code(workload, name) for name in names)
        return not is_same or check_code(names) != _read_check_code(names)
    except OSError:  # a file is gone, as during an update
        return True


def result_code(workload: str, framework: str) -> str:
    """All that a kept result of a probe depends on besides its request: versions and code."""
    found = frameworks().load(framework)
    versions = [str(found.installed_version()), *found.versions_of_parts().values()]
    return " ".join([*versions, training_code(workload, framework), check_code([framework])])


@functools.cache
def _known_check_code(names: frozenset[str]) -> str:
    return _read_check_code(names)


def _read_check_code(names: Iterable[str]) -> str:
    folders = (engine_folder(name) for name in sorted(set(names)))
    probes = [folder / "probe.py" for folder in folders if folder is not None]
    return digest_files([*(PACKAGE / name for name in _CHECK), *(path for path in probes if path.exists())])
