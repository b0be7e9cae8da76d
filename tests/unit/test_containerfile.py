"""The Containerfile installs before it copies the code: it must copy all that the installation reads."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_installation_finds_all_it_needs() -> None:
    lines = (ROOT / "Containerfile").read_text().splitlines()
    before = lines[: lines.index("RUN make setup")]
    copied = {word for line in before if line.startswith("COPY ") for word in line.split()[1:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"])
    needed |= {"Makefile", "pyproject.toml", project["project"]["readme"]}
    rule = re.search(r"^\.venv/ready: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert rule is not None
    needed |= {word.split("/")[0] for word in rule[1].split()}
    assert needed <= copied
    assert all((ROOT / name).exists() for name in copied)
