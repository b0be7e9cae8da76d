"""The modules that the observer saw, and what of them becomes part of the code under test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainmark.controller.observed_code import add_observed_code
from trainmark.observe.local_modules import local_modules


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b", *words], cwd=folder, check=True)


class Place:
    """A repository with a script and a module, an untracked module in it, and a library beside it."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "run"
        self.folder.mkdir()
        for name in ("repo/train.py", "repo/model.py", "repo/draft.py", "lib/shared.py"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(f"# {name}\n")
        git(root / "repo", "init", "-q")
        git(root / "repo", "add", "train.py", "model.py")
        git(root / "repo", "commit", "-qm", "first")

    def hash_of(self, *names: str, framework: tuple[str, ...] = ("torch 2.15.0",)) -> str | None:
        """Of the modules with these files, after a run of train.py."""
        modules = {Path(name).stem: str(self.root / name) for name in names}
        record = {"kind": "modules", "modules": {"__main__": str(self.root / "repo/train.py"), **modules}}
        (self.folder / "rank0.observed.jsonl").write_text(json.dumps(record) + "\n")
        notes = [json.dumps({"kind": "framework", "what": text}) for text in framework]
        (self.folder / "observer.jsonl").write_text("".join(f"{note}\n" for note in notes))
        (self.folder / "env.json").write_text(json.dumps({"script": {"path": "train.py"}}))
        add_observed_code(self.folder)
        return self.environment()["script"]["modules_sha256"]  # type: ignore[no-any-return]

    def environment(self) -> dict[str, Any]:
        return json.loads((self.folder / "env.json").read_text())  # type: ignore[no-any-return]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_commit_tells_tracked_modules_apart(place: Place) -> None:
    assert place.hash_of("repo/model.py") is None
    (place.root / "repo" / "model.py").write_text("edited\n")
    assert place.hash_of("repo/model.py") is None  # the hash of uncommitted changes has it


@pytest.mark.parametrize("name", ["repo/draft.py", "lib/shared.py"])
def test_the_content_tells_others_apart(name: str, place: Place) -> None:
    before = place.hash_of("repo/model.py", name)
    assert before is not None
    assert place.hash_of("repo/model.py", name) == before
    (place.root / name).write_text("edited\n")
    assert place.hash_of("repo/model.py", name) not in (None, before)


def test_the_framework_is_as_the_process_called_it(place: Place) -> None:
    place.hash_of("repo/model.py")
    assert place.environment()["framework"] == "torch 2.15.0"
    place.hash_of("repo/model.py", framework=("torch 2.15.0", "jax 0.9"))
    assert "framework" not in place.environment()


@pytest.mark.parametrize(
    "text", ["", "{", '{"kind":"modules","modules":[1]}\n', '{"kind":"modules","modules":{"a":2}}\n']
)
def test_a_damaged_file_of_the_observer(text: str, place: Place) -> None:
    (place.folder / "rank0.observed.jsonl").write_text(text)
    (place.folder / "env.json").write_text('{"script": null}')
    add_observed_code(place.folder)
    assert place.environment() == {"script": None}


def test_local_modules_are_neither_python_s_nor_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_module_of_test.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_module_of_test  # type: ignore[import-not-found]

    found = local_modules()
    assert found["own_module_of_test"] == own_module_of_test.__file__
    assert not {"json", "pytest", "trainmark.observe.local_modules"} & set(found)
    assert all("site-packages" not in path for path in found.values())
    del sys.modules["own_module_of_test"]
