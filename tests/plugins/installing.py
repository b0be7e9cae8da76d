"""Installs a package for the subprocesses of a test: its code and its .dist-info in a folder on PYTHONPATH.

This is what an installer leaves in site-packages, without a network and without touching the environment of the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

SAMPLE = Path(__file__).parent / "sample"


def install_sample(site: Path) -> None:
    project = tomllib.loads((SAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copytree(
        SAMPLE / "trainmark_sample", site / "trainmark_sample", ignore=shutil.ignore_patterns("__pycache__")
    )
    write_metadata(site, project["name"], project["version"], project["entry-points"])


def write_metadata(site: Path, name: str, version: str, entry_points: Mapping[str, Mapping[str, str]]) -> None:
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = (
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
        for group, points in entry_points.items()
    )
    (folder / "entry_points.txt").write_text("\n".join(groups))


def run_trainmark(*words: str, site: Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The real command line in a process of its own, with `site` on its path."""
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    source = str(Path(__file__).parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), source, *inherited]), **variables}
    argv = [sys.executable, "-P", "-m", "trainmark.cli.main", *words]
    return subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
