"""What is known of a framework without importing it."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainmark.frameworks import frameworks, required_extra, setting_prefixes


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


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("cuda: Optional[str] = None\nhip: Optional[str] = None\n", True),
        ("cuda: Optional[str] = '13.2'\nhip: Optional[str] = None\n", False),
        ("cuda = None\nhip = '6.4'\n", False),
        ("cuda = None\n", True),
        ("something = 'else'\n", False),
        (None, False),
    ],
)
def test_what_torch_was_built_for_is_in_its_version_file(
    lines: str | None, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lines is not None:
        (tmp_path / "version.py").write_text(f"__version__ = '2.15.0'\n{lines}")
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: found)
    assert frameworks().load("torch").is_for_cpus_only() == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("cuda_version     = 'False'\nhip_version      = None\n", True),
        ("cuda_version     = '13.0'\nhip_version      = None\n", False),
        (None, False),
    ],
)
def test_what_paddle_was_built_for_is_in_its_version_file(
    lines: str | None, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "version").mkdir()
    if lines is not None:
        (tmp_path / "version" / "__init__.py").write_text(lines)
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: found)
    assert frameworks().load("paddle").is_for_cpus_only() == expected


@pytest.mark.parametrize(
    ("points", "module", "variable", "expected"),
    [([], None, "", True), (["cuda"], None, "", False), ([], "found", "", False), ([], None, "cuda:/plugin.so", False)],
)
def test_jax_uses_a_gpu_by_a_plugin(
    points: list[str], module: str | None, variable: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda group: {"jax_plugins": points}[group])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: {"jax_plugins": module}[name])
    monkeypatch.setenv("PJRT_NAMES_AND_LIBRARY_PATHS", variable)
    assert frameworks().load("jax").is_for_cpus_only() == expected


def test_a_checkout_that_another_user_may_not_read_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    text = json.dumps({"url": tmp_path.as_uri(), "dir_info": {}})
    monkeypatch.setattr(metadata, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))
    monkeypatch.setattr("os.stat", refused)
    assert required_extra("jax") == "'trainmark[jax]'"


def test_a_package_that_is_half_installed_has_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: None)  # as of a .dist-info folder without METADATA
    assert frameworks().load("jax").installed_version() == "unknown"
    assert frameworks().load("jax").versions_of_parts() == {"jaxlib": "unknown", "optax": "unknown"}


def test_settings_of_built_in_frameworks_load_no_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(frameworks()), "found", lambda _: pytest.fail("a plugin may import its framework"))
    assert {"FLAGS_", "JAX_", "TORCH_ALLOW_TF32"} <= set(setting_prefixes())
    assert setting_prefixes(["jax"]) == setting_prefixes()
