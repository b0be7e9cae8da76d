"""Docs do not drift: the reference is what the parser says, examples parse, links lead somewhere."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from trainmark.cli.main import VERBS
from trainmark.cli.main import _parse as parse
from trainmark.cli.parser import read_overrides
from trainmark.controller.workload import SpecOptions, make_plan
from trainmark.errors import InputError
from trainmark.spec.files import shipped_suites

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse lays help out differently in each version")
def test_the_reference_is_current() -> None:
    render = runpy.run_path(str(ROOT / "scripts" / "make-reference"))["render"]
    assert (ROOT / "docs" / "reference" / "cli.md").read_text() == render(), "run: make reference"


def test_the_list_of_optimisations_is_current() -> None:
    render = runpy.run_path(str(ROOT / "scripts" / "make-reference"))["render_optimisations"]
    assert (ROOT / "docs" / "reference" / "optimisations.md").read_text() == render(), "run: make reference"


def test_the_schemas_are_current() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "make-reference"))["render_schemas"]()
    folder = ROOT / "docs" / "reference" / "schemas"
    assert {path.name: path.read_text() for path in folder.iterdir()} == made, "run: make reference"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def commands() -> list[str]:
    lines = (line.strip() for page in PAGES for line in page.read_text().splitlines() if line.startswith("    "))
    found = (line.removeprefix("$ ").split("  #")[0].strip() for line in lines)
    return sorted({line for line in found if line.startswith("trainmark ")})


def test_every_command_in_the_docs_is_valid() -> None:
    """Options parse, and the workloads, recipes, precisions and sizes of `run` and `plan` exist."""
    lines = commands()
    assert len(lines) > 60, "the commands of the docs were not found"
    broken = [f"{line}: {problem}" for line in lines if (problem := problem_of(line)) is not None]
    assert broken == []


def problem_of(line: str) -> str | None:
    words = shlex.split(line)[1:]
    try:
        args = parse(words)
        what = getattr(args, "what", None) if args.verb in ("run", "plan") else None
        names_a_file = what is not None and what.endswith(".toml")
        if what is not None and not names_a_file and args.cluster is None:
            overrides = read_overrides(args)
            overrides.pop("weights", None)  # a file that only the reader has
            make_plan(SpecOptions(what=what, overrides=overrides, launcher=args.launcher))
    except (InputError, SystemExit) as error:
        return str(error)
    return None


@pytest.mark.parametrize("line", ["trainmark run resnet51", "trainmark run resnet50 --precision fp99", "trainmark sho"])
def test_an_invalid_command_is_noticed(line: str) -> None:
    assert problem_of(line) is not None


def test_every_verb_and_suite_is_in_the_docs() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for verb in VERBS:
        assert f"trainmark {verb}" in text
    for suite in shipped_suites():
        assert f"`{suite}`" in text or f"run {suite}" in text
