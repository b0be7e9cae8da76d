"""A digest of trainmark's own code for a workload and some frameworks: a proof holds for this code only."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import trainmark
from trainmark.runfolder.parity import digest_sources
from trainmark.workloads.registry import load_module


def code_digest(workload: str, names: Sequence[str]) -> str:
    return _digest(workload, tuple(sorted(set(names))))


@functools.cache
def _digest(workload: str, names: tuple[str, ...]) -> str:
    package = Path(str(trainmark.__file__)).parent
    folder = Path(str(load_module(workload, "card").__file__)).parent
    return digest_sources(package, workload_folder=folder, frameworks=names)
