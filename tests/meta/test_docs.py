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
    broken = [target for target in re.findall(r"\]\(([^):]+)\)", page.read_text()) if not leads_somewhere(page, target)]
    assert broken == [], f"broken links in {page.name}"


def leads_somewhere(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    path = page.parent / name if name else page
    return path.exists() and (not anchor or anchor in anchors_of(path.read_text()))


def anchors_of(text: str) -> set[str]:
    """As GitHub makes them: only letters, digits, - and _ of a heading are left; the second of the same name is -1."""
    code_left_out = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.*)$", code_left_out, flags=re.MULTILINE):
        shown = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).strip().lower()
        found.append(re.sub(r"[^\w\- ]", "", shown).replace(" ", "-"))
    numbered = (f"{name}-{count}" if (count := found[:place].count(name)) else name for place, name in enumerate(found))
    return set(numbered)


def test_anchors_are_those_of_github() -> None:
    text = "# A `b_c` & [d](e.md): f-g\n\n```\n# no heading\n```\n## Twice\n### Twice\n"
    assert anchors_of(text) == {"a-b_c--d-f-g", "twice", "twice-1"}


@pytest.mark.parametrize("target", ["#no-such-heading", "docs/concepts/recipes.md#sped", "docs/concepts/recipe.md"])
def test_a_broken_link_is_noticed(target: str) -> None:
    assert not leads_somewhere(ROOT / "README.md", target)


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


def script_options() -> list[tuple[str, str]]:
    """(script, option) of the lines such as `python benchmarks/fast.py --device cuda`."""
    text = "\n".join(page.read_text() for page in PAGES)
    lines = re.findall(r"\b((?:benchmarks|scripts)/[\w-]+(?:\.\w+)?)([^`\n]*)", text)
    return sorted({(script, option) for script, rest in lines for option in re.findall(r" (--[a-z][a-z-]*)", rest)})


def has_option(script: str, option: str) -> bool:
    path = ROOT / script
    source = (path / "__main__.py" if path.is_dir() else path).read_text()
    return f'"{option}"' in source


def test_every_option_of_a_script_in_the_docs_exists() -> None:
    found = script_options()
    assert len(found) > 15, "the commands of the docs were not found"
    assert [f"{script} {option}" for script, option in found if not has_option(script, option)] == []


def test_an_unknown_option_of_a_script_is_noticed() -> None:
    assert has_option("benchmarks/fast.py", "--device")
    assert not has_option("benchmarks/fast.py", "--devise")


def test_every_verb_and_suite_is_in_the_docs() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for verb in VERBS:
        assert f"trainmark {verb}" in text
    for suite in shipped_suites():
        assert f"`{suite}`" in text or f"run {suite}" in text
