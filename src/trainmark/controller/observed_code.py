"""What the observer saw of the code under test, added to env.json when a command has ended.

The commit tells the modules of the script's repository apart, and versions tell installed packages apart. What is left
are modules that lie elsewhere or are not tracked: their content is hashed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from trainmark.runfolder.files import ENVIRONMENT_FILE, OBSERVER_FILE, Json, observed_files, read_json
from trainmark.runfolder.records import read_records
from trainmark.runfolder.values import as_text
from trainmark.worker.environment import write_environment
from trainmark.worker.repository import find_repository, tracked_files

_MAX_MODULE_BYTES = 8 << 20
_MAX_MODULES = 2000


def add_observed_code(folder: Path) -> None:
    environment = read_json(folder / ENVIRONMENT_FILE)
    if environment is None:
        return
    modules, framework = _read_modules(folder), _read_framework(folder)
    found: Json = {} if framework is None else {"framework": framework}
    script = environment.get("script")
    if modules and isinstance(script, dict):
        found["script"] = {**script, "modules_sha256": _hash_modules(modules)}
    if found:
        write_environment(folder, {**environment, **found})


def _read_modules(folder: Path) -> dict[str, Path]:
    """Of the first process that trained: the others run the same script."""
    for path in observed_files(folder):
        for record in read_records(path):
            listed = record.get("modules")
            if record["kind"] == "modules" and isinstance(listed, dict):
                pairs = list(listed.items())[:_MAX_MODULES]
                return {str(name): Path(text) for name, value in pairs if (text := as_text(value))}
    return {}


def _read_framework(folder: Path) -> str | None:
    """torch 2.15.0+cu132, as it called itself; None if the processes imported several, or none."""
    notes = read_records(folder / OBSERVER_FILE)
    found = {as_text(note.get("what")) for note in notes if note["kind"] == "framework"}
    return found.pop() if len(found) == 1 else None


def _hash_modules(modules: dict[str, Path]) -> str | None:
    """By name, not by path: two checkouts of the same code are equal. None if there is nothing to hash."""
    main = modules.get("__main__")
    repository = find_repository(main) if main is not None else None
    known = tracked_files(repository, list(modules.values())) if repository is not None else set()
    digest, num = hashlib.sha256(), 0
    for name, path in sorted(modules.items()):
        if path in known or path == main:
            continue
        try:
            with path.open("rb") as file:
                content = file.read(_MAX_MODULE_BYTES)
        except OSError:
            continue  # removed meanwhile
        digest.update(f"{name}:{len(content)}:".encode(errors="replace") + content)
        num += 1
    return digest.hexdigest()[:12] if num else None
