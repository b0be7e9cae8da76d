"""The container around this process: what runs it, and which image it came from, as far as that can be known inside."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DIGEST = re.compile(r"@?(sha256:[0-9a-f]{64})$")
_USER = re.compile(r"(?<=//)[^/@]*@")
_IMAGE_ID = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_MAX_BYTES = 1 << 16
_SIF_VARIABLES = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
_NAME_VARIABLES = {
    "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_image": "enroot",
    "CI_JOB_IMAGE": "gitlab",
}
"""Set inside by pyxis, which lets Slurm start enroot, and by GitLab's runners."""


@dataclass(frozen=True, kw_only=True)
class Image:
    name: str
    digest: str | None
    """sha256:..., which names one image for ever; None where only a name is known, which may be given to another."""

    @classmethod
    def parse(cls, text: str) -> Image:
        """NAME, NAME@sha256:DIGEST or sha256:DIGEST, without a password that stands in an address."""
        text = _USER.sub("", text.strip())
        found = _DIGEST.search(text)
        name = text[: found.start()] if found else text
        return cls(name=name or text, digest=found[1] if found else None)


def describe_image(
    given: str | None, *, root: Path = Path("/"), environment: Mapping[str, str] = os.environ
) -> dict[str, Any] | None:
    """For env.json; `given` by the user goes first. None if it is unknown, as always inside docker."""
    image = Image.parse(given) if given else _find_image(root, environment)
    if image is None:
        return None
    return {"name": image.name, "digest": image.digest, "is_given": bool(given)}


def describe_container(*, root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> str | None:
    """What kind of container this is; None outside of one."""
    for variable in ("NVIDIA_PRODUCT_NAME", "NVIDIA_PYTORCH_VERSION", *reversed(_SIF_VARIABLES)):
        if variable in environment:
            return f"{variable}={environment[variable]}"
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    if "KUBERNETES_SERVICE_HOST" in environment:
        return "kubernetes"
    return _read(root / "run/systemd/container").strip() or None


def _find_image(root: Path, environment: Mapping[str, str]) -> Image | None:
    return _of_podman(root) or _of_apptainer(environment) or _of_ecs(environment) or _of_variables(environment)


def _of_podman(root: Path) -> Image | None:
    """Lines like image="docker.io/library/debian:12" and imageid="..."; empty in some configurations."""
    facts = dict(re.findall(r'^(\w+)="([^"\n]*)"$', _read(root / "run/.containerenv"), re.MULTILINE))
    return _named(facts.get("image"), facts.get("imageid"))


def _of_apptainer(environment: Mapping[str, str]) -> Image | None:
    paths = (environment.get(name) for name in _SIF_VARIABLES)
    found = next((path for path in paths if path), None)
    return Image(name=Path(found).name, digest=None) if found else None


def _of_ecs(environment: Mapping[str, str]) -> Image | None:
    path = environment.get("ECS_CONTAINER_METADATA_FILE")
    try:
        facts = json.loads(_read(Path(path))) if path else None
    except (ValueError, RecursionError):
        return None
    return _named(facts.get("ImageName"), facts.get("ImageID")) if isinstance(facts, dict) else None


def _of_variables(environment: Mapping[str, str]) -> Image | None:
    found = (environment.get(name) for name in _NAME_VARIABLES)
    return next((Image.parse(name) for name in found if name), None)


def _named(name: Any, image_id: Any) -> Image | None:
    found = _IMAGE_ID.fullmatch(image_id) if isinstance(image_id, str) else None
    if isinstance(name, str) and name:
        image = Image.parse(name)
        return image if image.digest or found is None else Image(name=image.name, digest=f"sha256:{found[1]}")
    return Image(name=f"sha256:{found[1]}", digest=f"sha256:{found[1]}") if found else None


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""
