"""Bytecode of a framework is kept where an image forbids Python to write it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from trainmark.worker import bytecode

_PROGRAM = """
import importlib, sys
from trainmark.worker.bytecode import keep_bytecode
keep_bytecode("made_up_framework")
importlib.import_module("made_up_framework.part")
"""
_FORBIDDEN = {"PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "packages" / "made_up_framework"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "part.py").write_text("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import json'])\n")
    return folder


def start(package: Path, **environment: str) -> Path:
    """A process that imports it; the folder of what is kept."""
    cache = package.parents[1] / "cache"
    path = os.pathsep.join([str(package.parent), *sys.path])
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**own, "PYTHONPATH": path, "XDG_CACHE_HOME": str(cache), **environment}
    subprocess.run([sys.executable, "-c", _PROGRAM], env=environment, check=True)
    return cache / "trainmark" / "bytecode"


def test_it_is_kept_where_python_must_not_write_it(package: Path) -> None:
    [kept] = start(package, **_FORBIDDEN).iterdir()
    assert list(kept.rglob("made_up_framework/part.*.pyc"))
    assert list(kept.rglob("json/decoder.*.pyc")), "processes of the process keep it too"
    assert kept.stat().st_mode & 0o777 == 0o700
    assert not (package / "__pycache__").exists()


def test_another_image_with_the_same_home_has_a_folder_of_its_own(package: Path) -> None:
    """Sources of one size and time at one path would be taken for those of the other image."""
    start(package, **_FORBIDDEN)
    (package.parent / "made_up_framework-2.dist-info").mkdir()
    assert len(list(start(package, **_FORBIDDEN).iterdir())) == 2


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_not_used(package: Path) -> None:
    [kept] = start(package, **_FORBIDDEN).iterdir()
    shutil.rmtree(kept)
    kept.mkdir()
    os.chown(kept, 12345, 12345)
    start(package, **_FORBIDDEN)
    assert list(kept.iterdir()) == []


def test_an_installation_that_cannot_be_written_to_is_recompiled(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert bytecode._find_recompiled(package.name) is None
    monkeypatch.setattr(bytecode.os, "access", lambda *_: False)
    assert bytecode._find_recompiled(package.name) == package


def test_nothing_changes_once_the_framework_is_imported(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setitem(sys.modules, package.name, ModuleType(package.name))
    environment = {"XDG_CACHE_HOME": str(package.parents[1] / "cache"), **_FORBIDDEN}
    bytecode.keep_bytecode(package.name, environment)
    assert environment.keys() == {"XDG_CACHE_HOME", *_FORBIDDEN}
    assert sys.pycache_prefix is None


def test_without_a_home_it_starts_as_before(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(Path, "home", no_home)
    bytecode.keep_bytecode(package.name, {})
    assert sys.pycache_prefix is None


def test_nothing_changes_where_python_writes_it_beside_the_source(package: Path) -> None:
    assert not start(package).exists()
    assert (package / "__pycache__").exists()


def test_bytecode_that_is_there_is_used(package: Path) -> None:
    path = Path(importlib.util.cache_from_source(str(package / "__init__.py")))
    path.parent.mkdir()
    path.write_bytes(b"")
    assert not start(package, **_FORBIDDEN).exists()


def test_a_folder_of_the_user_is_used(package: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    assert not start(package, PYTHONPYCACHEPREFIX=str(chosen)).exists()
    assert list(chosen.rglob("part.*.pyc"))


def test_without_a_place_to_write_it_starts_as_before(package: Path) -> None:
    (package.parents[1] / "cache").write_text("a file")
    start(package, **_FORBIDDEN)
    assert not list(package.parent.rglob("*.pyc"))
