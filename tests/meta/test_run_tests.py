"""`scripts/run-tests`: what failed beside others has a second chance alone, and nothing else has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "run-tests"
PASSES = "def test_it(): pass\n"
FAILS = "def test_it(): assert False\n"
FAILS_ONCE = """
from pathlib import Path

def test_it():
    seen = Path(__file__).with_suffix(".seen")
    was_seen = seen.exists()
    seen.touch()
    assert was_seen
"""


def run_tests(root: Path, **files: str) -> subprocess.CompletedProcess[str]:
    """In a project of its own; `e2e_a` is tests/e2e/test_e2e_a.py, all else is of tests/unit."""
    for name, text in files.items():
        folder = root / "tests" / ("e2e" if name.startswith("e2e") else "unit")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"test_{name}.py").write_text(text)
    (root / "pytest.ini").touch()
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "COV"))}
    command = [sys.executable, str(SCRIPT)]
    return subprocess.run(command, cwd=root, env=clean, capture_output=True, text=True, check=False)


def test_one_that_passes_alone_is_named(tmp_path: Path) -> None:
    done = run_tests(tmp_path, e2e_a=FAILS_ONCE, e2e_b=PASSES, c=PASSES)
    assert done.returncode == 0, done.stdout
    assert "passed alone (worth a look):\n  tests/e2e/test_e2e_a.py::test_it" in done.stdout


@pytest.mark.parametrize(
    "files",
    [
        {"e2e_a": FAILS},
        {"a": FAILS_ONCE},
        {"e2e_a": FAILS_ONCE, "b": FAILS_ONCE},
        {f"e2e_{number}": FAILS_ONCE for number in range(5)},
        {"e2e_a": "import nowhere_to_be_found\n"},
    ],
    ids=["fails twice", "unit", "both", "too many", "cannot be read"],
)
def test_all_else_has_failed(tmp_path: Path, files: dict[str, str]) -> None:
    done = run_tests(tmp_path, **files)
    assert done.returncode != 0
    assert "passed alone" not in done.stdout
