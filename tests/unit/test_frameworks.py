"""What is known of a framework without importing it."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainmark.frameworks import frameworks, required_extra


def test_a_framework_may_be_installed_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"paddlepaddle-gpu": "3.3.1", "jax": "0.11.2", "jaxlib": "0.11.1", "optax": "0.2.8"}

    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert frameworks().load("paddle").installed_version() == "3.3.1"
    assert frameworks().load("jax").versions_of_parts() == {"jaxlib": "0.11.1", "optax": "0.2.8"}
    assert frameworks().load("torch").installed_version() == "unknown"


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, "'trainmark[jax]'"),
        ({"url": "https://example.org/trainmark.git", "vcs_info": {"vcs": "git"}}, "'trainmark[jax]'"),
        ({"url": "file:///nowhere", "dir_info": {}}, "'trainmark[jax]'"),
        ({"url": "FOLDER", "dir_info": {}}, "'FOLDER[jax]'"),
        ({"url": "FOLDER", "dir_info": {"editable": True}}, "-e 'FOLDER[jax]'"),
    ],
)
def test_an_extra_is_installed_from_where_trainmark_came_from(
    origin: dict[str, Any] | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a checkout"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    if origin is not None:
        origin = {**origin, "url": origin["url"].replace("FOLDER", folder.as_uri())}
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(metadata, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))
    assert required_extra("jax") == expected.replace("FOLDER", str(folder))


def test_without_package_metadata_an_extra_has_its_published_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert required_extra("paddle") == "'trainmark[paddle]'"
