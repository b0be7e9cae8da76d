"""The image of a container, from the files and variables that each runtime leaves inside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainmark.worker.container import describe_container, describe_image

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("given", "name", "digest"),
    [
        ("team/train:7", "team/train:7", None),
        (f"registry.example.org:5000/train@{DIGEST}", "registry.example.org:5000/train", DIGEST),
        (f"train:7@{DIGEST}", "train:7", DIGEST),
        (DIGEST, DIGEST, DIGEST),
        ("train@sha256:short", "train@sha256:short", None),
        ("docker://user:password@example.org/train:7", "docker://example.org/train:7", None),
    ],
)
def test_a_given_image(given: str, name: str, digest: str | None, tmp_path: Path) -> None:
    found = describe_image(given, root=tmp_path, environment={"CI_JOB_IMAGE": "other"})
    assert found == {"name": name, "digest": digest, "is_given": True}


def test_podman(tmp_path: Path) -> None:
    assert describe_image(None, root=tmp_path, environment={}) is None
    assert describe_container(root=tmp_path, environment={}) is None
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".containerenv").write_text(
        f'engine="podman-4.9"\nname="x"\nimage="docker.io/library/debian:12"\nimageid="{"ab" * 32}"\n'
    )
    found = describe_image(None, root=tmp_path, environment={})
    assert found == {"name": "docker.io/library/debian:12", "digest": DIGEST, "is_given": False}
    assert describe_container(root=tmp_path, environment={}) == "podman"
    (tmp_path / "run" / ".containerenv").write_text("")
    assert describe_image(None, root=tmp_path, environment={}) is None


def test_docker_does_not_tell_its_image(tmp_path: Path) -> None:
    (tmp_path / ".dockerenv").touch()
    assert describe_image(None, root=tmp_path, environment={}) is None
    assert describe_container(root=tmp_path, environment={}) == "docker"


def test_variables_of_other_runtimes(tmp_path: Path) -> None:
    metadata = tmp_path / "ecs.json"
    metadata.write_text(json.dumps({"ImageName": "train:7", "ImageID": DIGEST}))
    pyxis = "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_image"
    for variables, name, digest in (
        ({"APPTAINER_CONTAINER": "/home/me/train.sif"}, "train.sif", None),
        ({pyxis: "nvcr.io#nvidia/pytorch:26.01-py3"}, "nvcr.io#nvidia/pytorch:26.01-py3", None),
        ({"CI_JOB_IMAGE": f"train@{DIGEST}"}, "train", DIGEST),
        ({"ECS_CONTAINER_METADATA_FILE": str(metadata)}, "train:7", DIGEST),
    ):
        found = describe_image(None, root=tmp_path, environment=variables)
        assert found == {"name": name, "digest": digest, "is_given": False}
    assert describe_container(root=tmp_path, environment={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == "kubernetes"


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"ImageID": 3}', "[" * 100_000])
def test_damaged_metadata(text: str, tmp_path: Path) -> None:
    path = tmp_path / "ecs.json"
    path.write_text(text)
    assert describe_image(None, root=tmp_path, environment={"ECS_CONTAINER_METADATA_FILE": str(path)}) is None
