"""Drift made impossible: who may import whom, how large things may grow, what loads when."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "trainmark"
MODULES = sorted(SOURCE.rglob("*.py"))

BOTTOM = {"units", "errors", "records", "parent", "ranks", "host", "mark", "patience"}
MAY_IMPORT = {
    "units": set(),
    "errors": set(),
    "records": set(),
    "parent": set(),
    "ranks": {"parent"},
    "host": set(),
    "mark": set(),
    "patience": set(),
    "spec": BOTTOM,
    "plan": BOTTOM | {"spec"},
    "launch": BOTTOM | {"spec", "plan"},
    "workloads": BOTTOM | {"datasets"},
    "datasets": BOTTOM,
    "worker": BOTTOM | {"workloads", "datasets"},
    "logs": BOTTOM,
    "store": BOTTOM,
    "analyse": BOTTOM | {"store"},
    "report": BOTTOM | {"store", "analyse"},
    "cli": BOTTOM | {"spec", "plan", "launch", "workloads", "worker", "datasets", "logs", "store", "analyse", "report"},
}
FRAMEWORKS = {"torch", "torchvision", "triton", "paddle"}
WORKER_MAY_USE = {"cv2", "numpy", "PIL", "psutil", "pynvml", *FRAMEWORKS}


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            yield node.module or ""


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_import_law(path: Path) -> None:
    own = package_of(path)
    if own == "__init__":
        return
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "trainmark" and len(parts) > 1 and parts[1] != own:
            assert parts[1] in MAY_IMPORT[own], f"{name_of(path)} may not import {name}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_frameworks_stay_in_their_files(path: Path) -> None:
    is_torch_file = path.name == "torch.py" or path.name.startswith("torch_")
    allowed = (package_of(path) == "workloads" and is_torch_file) or path.name.startswith("engine_torch")
    used = {name.split(".")[0] for name in imports_of(path)} & FRAMEWORKS
    assert allowed or not used, f"{name_of(path)} imports {used}"


@pytest.mark.parametrize("path", sorted((SOURCE / "worker").glob("*.py")), ids=name_of)
def test_the_worker_needs_little(path: Path) -> None:
    """It runs inside any vendor container: the standard library, the framework and what a reader needs."""
    outside = {name.split(".")[0] for name in imports_of(path)} - set(sys.stdlib_module_names) - {"trainmark", ""}
    assert outside <= WORKER_MAY_USE


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_sizes_and_names(path: Path) -> None:
    assert path.stem not in ("utils", "util", "helpers", "helper", "common", "misc", "manager")
    assert len(path.read_text().splitlines()) <= 500
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, f"{node.name} is too long"


def test_every_workload_has_the_same_files() -> None:
    folders = [path.parent for path in (SOURCE / "workloads").glob("*/card.py")]
    assert folders
    for folder in folders:
        assert {"card.py", "torch.py", "data.py", "metric.py"} <= {path.name for path in folder.iterdir()}


def test_help_loads_no_framework_and_nothing_heavy() -> None:
    code = (
        "import sys\nfrom trainmark.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'torchvision', 'paddle', 'numpy', 'scipy', 'sqlalchemy', 'rich', 'psutil'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "VERB" in done.stdout


@pytest.mark.parametrize(
    "argv",
    [
        "list --json",
        "plan quick --json",
        "doctor --json",
        "show --json --store STORE",
        "export --format csv --store STORE",
    ],
)
def test_reading_verbs_need_no_framework(argv: str, tmp_path: Path) -> None:
    """torch and torchvision made impossible to import, as on a bare install."""
    from making import make_run

    make_run(tmp_path, "run")
    code = (
        "import sys\nfor name in ('torch', 'torchvision', 'triton', 'paddle'): sys.modules[name] = None\n"
        "from trainmark.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    words = argv.replace("STORE", str(tmp_path)).split()
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_registry_host_and_no_path_of_a_machine_in_the_tree() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    for name in tracked:
        text = (ROOT / name).read_text(errors="replace")
        for forbidden in ("--index-" + "url", "/simple" + "/", "/wo" + "rk/", "/ro" + "ot/"):
            assert forbidden not in text.replace("--no-emit-index-" + "url", ""), f"{name} names {forbidden}"
