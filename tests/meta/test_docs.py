"""Docs do not drift: the reference is what the parser says, examples parse, links lead somewhere."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from trainmark.cli.main import VERBS, build_parser
from trainmark.spec.files import shipped_suites

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse lays help out differently in each version")
def test_the_reference_is_current() -> None:
    render = runpy.run_path(str(ROOT / "scripts" / "make-reference"))["render"]
    assert (ROOT / "docs" / "reference" / "cli.md").read_text() == render(), "run: make reference"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def commands() -> list[str]:
    lines = (line.strip() for page in PAGES for line in page.read_text().splitlines() if line.startswith("    "))
    found = (line.removeprefix("$ ").split("  #")[0].strip() for line in lines)
    return sorted({line for line in found if line.startswith("trainmark ")})


@pytest.mark.parametrize("line", commands())
def test_every_command_in_the_docs_parses(line: str) -> None:
    parsed = build_parser().parse_args(shlex.split(line)[1:])
    assert parsed.verb in VERBS


def test_every_verb_and_suite_is_in_the_docs() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for verb in VERBS:
        assert f"trainmark {verb}" in text
    for suite in shipped_suites():
        assert f"`{suite}`" in text or f"run {suite}" in text
