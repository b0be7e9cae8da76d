"""What is known of a framework without importing it."""

from __future__ import annotations

from importlib import metadata

import pytest

from trainmark.frameworks import frameworks


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
