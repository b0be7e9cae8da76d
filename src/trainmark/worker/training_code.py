"""A digest of the code that decides what a training computes: a proof of parity holds for runs of the same code."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Iterable
from pathlib import Path

import trainmark
from trainmark.frameworks import frameworks
from trainmark.workloads.registry import load_card, load_module

PACKAGE = Path(str(trainmark.__file__)).parent
_INSTRUMENTS = frozenset({
    "alarm", "checkpoint", "communication", "container", "environment", "loop", "main", "memory", "preflight", "probe",
    "probe_files", "recorder", "repository", "resume", "sanity", "training_code",
})  # fmt: skip
"""Modules of `worker` that start, watch and write down a training. Any other may change what a step computes."""
_OBSERVERS = frozenset({"probe", "work"})
"""Modules of an engine that no training uses: of `parity`, and the count of FLOPs and bytes."""
_READER = "imagenet"
"""The format whose reader serves images of others too."""
_LENGTH = 12


@functools.cache
def training_code(workload: str, framework: str) -> str:
    """As it was when this process first asked: it has loaded that code, whatever is on the disk later."""
    return read_training_code(workload, framework)


def read_training_code(workload: str, framework: str) -> str:
    """Of the workload's files, its data set's, the framework's step and what they share: some hundred kB, 2 ms."""
    data = PACKAGE / "datasets"
    folder = Path(str(load_module(workload, "card").__file__)).parent
    common = [path for path in _modules(PACKAGE / "worker") if path.stem not in _INSTRUMENTS]
    neutral = [path for part in (PACKAGE / "workloads", folder) for path in _modules(part)]
    shared = [data, *(data / name for name in sorted({_READER, load_card(workload).dataset})), PACKAGE / "weights"]
    engine = [path for path in _modules(engine_folder(framework)) if path.stem not in _OBSERVERS]
    of_others = {name for name in frameworks().names() if name != framework}
    return digest_files([
        *common,
        *(path for path in neutral if path.stem.partition("_")[0] not in of_others),
        *(path for part in shared for path in _modules(part)),
        *engine,
    ])  # fmt: skip


def digest_files(paths: Iterable[Path]) -> str:
    """Of their names and contents, not of where they are installed."""
    found = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        found.update(f"{path.parent.name}/{path.name} {len(content)}\n".encode() + content)
    return found.hexdigest()[:_LENGTH]


def engine_folder(framework: str) -> Path | None:
    """None for a framework that trainmark cannot train with. The framework itself is not imported."""
    engine = frameworks().load(framework).engine
    spec = None if engine is None else importlib.util.find_spec(engine)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _modules(folder: Path | None) -> list[Path]:
    return [] if folder is None else sorted(folder.glob("*.py"))
