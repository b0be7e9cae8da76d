"""Drift made impossible: who may import whom, how large things may grow, what loads when."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from trainmark.cli.main import main
from trainmark.frameworks import required_extra

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "trainmark"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")

BOTTOM = {"units", "errors", "messages", "plugins", "frameworks", "runfolder", "parent_death", "rank_environment",
    "host", "gpus", "mark", "observe", "redaction", "silence_limit", "cache_folder", "freed_memory",
    "measured_peaks"}  # fmt: skip
MAY_IMPORT = {
    "units": set(),
    "errors": set(),
    "messages": {"units"},
    "plugins": {"errors"},
    "frameworks": {"errors", "plugins"},
    "runfolder": set(),
    "freed_memory": set(),
    "parent_death": set(),
    "rank_environment": set(),
    "host": set(),
    "gpus": set(),
    "mark": set(),
    "observe": set(),
    "redaction": set(),
    "cache_folder": set(),
    "measured_peaks": {"cache_folder", "runfolder"},
    "silence_limit": {"runfolder"},
    "spec": BOTTOM,
    "plan": BOTTOM | {"spec"},
    "launch": BOTTOM | {"spec", "plan"},
    "workloads": BOTTOM | {"datasets"},
    "datasets": BOTTOM,
    "weights": BOTTOM | {"workloads"},
    "worker": BOTTOM | {"workloads", "datasets", "weights"},
    "logs": BOTTOM,
    "store": BOTTOM,
    "analyse": BOTTOM | {"store", "workloads"},  # cards only: facts such as FLOPs per sample
    "report": BOTTOM | {"store", "analyse"},
    "controller": BOTTOM
    | {"spec", "plan", "launch", "workloads", "worker", "datasets", "weights", "logs", "store", "analyse"},
    "cli": BOTTOM
    | {"spec", "plan", "launch", "workloads", "worker", "datasets", "weights", "logs", "store", "analyse", "report"}
    | {"controller"},
}
FRAMEWORKS = {
    "torch": "torch",
    "torchvision": "torch",
    "triton": "torch",
    "paddle": "paddle",
    "jax": "jax",
    "flax": "jax",
    "optax": "jax",
}
"""Packages, and the framework whose files may import them."""
WORKER_MAY_USE = {"cv2", "numpy", "PIL", "psutil", "pynvml", *FRAMEWORKS}


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    return tuple(_find_imports(path))


def _find_imports(path: Path) -> Iterator[str]:
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


def test_import_law() -> None:
    broken = []
    for path in MODULES:
        own = package_of(path)
        inside = (name.split(".")[1] for name in imports_of(path) if name.startswith("trainmark."))
        broken += [f"{name_of(path)} imports {other}" for other in inside if other not in {own, *MAY_IMPORT[own]}]
    assert broken == []


def test_frameworks_stay_in_their_files() -> None:
    """In `worker/FRAMEWORK/` and in `workloads/**/FRAMEWORK*.py`."""
    broken = []
    for path in MODULES:
        used = {name.split(".")[0] for name in imports_of(path)} & set(FRAMEWORKS)
        is_workload = package_of(path) == "workloads"
        home = path.stem.split("_")[0] if is_workload else path.parent.name
        allowed = {name for name, owner in FRAMEWORKS.items() if owner == home and (is_workload or is_engine(path))}
        broken += [f"{name_of(path)} imports {name}" for name in used - allowed]
    assert broken == []


def is_engine(path: Path) -> bool:
    return path.parent.parent == SOURCE / "worker"


def test_the_worker_needs_little() -> None:
    """It runs inside any vendor container: the standard library, the framework and what a reader needs."""
    used = {name.split(".")[0] for path in (SOURCE / "worker").rglob("*.py") for name in imports_of(path)}
    assert used - set(sys.stdlib_module_names) - {"trainmark", ""} <= WORKER_MAY_USE


def test_the_observer_needs_only_the_standard_library_of_an_old_python() -> None:
    """It runs inside other people's interpreters, from Python 3.8 on; its start-up hook inside any."""
    for path in (SOURCE / "observe").rglob("*.py"):
        used = {name.split(".")[0] for name in imports_of(path)} - {"trainmark", "sitecustomize"}
        assert used <= set(sys.stdlib_module_names), f"{name_of(path)} imports {used - set(sys.stdlib_module_names)}"
        if path != SOURCE / "observe" / "__init__.py":
            ast.parse(path.read_text(), feature_version=(3, 8))
            outside = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)]
            ours = [node.module for node in outside if (node.module or "").startswith("trainmark")]
            assert ours == [], f"{name_of(path)} imports {ours}, not only for types"
    ast.parse((SOURCE / "mark.py").read_text(), feature_version=(3, 8))
    assert not any(name.startswith("trainmark") for name in imports_of(SOURCE / "mark.py"))


def test_sizes_and_names() -> None:
    broken = []
    for path in MODULES:
        text = path.read_text()
        if path.stem in ("utils", "util", "helpers", "helper", "common", "misc", "manager"):
            broken.append(f"{name_of(path)}: the name says nothing")
        if len(text.splitlines()) > 500:
            broken.append(f"{name_of(path)}: over 500 lines")
        functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
        long = (node.name for node in functions if (node.end_lineno or 0) - node.lineno >= 60)
        broken += [f"{name_of(path)}: {name} has 60 lines or more" for name in long]
    assert broken == []


def test_every_workload_has_the_same_files() -> None:
    folders = [path.parent for path in (SOURCE / "workloads").glob("*/card.py")]
    assert folders
    for folder in folders:
        assert {"card.py", "torch.py", "data.py", "metric.py", "synthetic.py"} <= {
            path.name for path in folder.iterdir()
        }


def test_help_loads_no_framework_and_nothing_heavy() -> None:
    code = (
        "import sys\nfrom trainmark.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'torchvision', 'paddle', 'numpy', 'scipy', 'sqlalchemy', 'rich', 'psutil'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "COMMAND" in done.stdout


@pytest.fixture
def some_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores, a baseline with later runs of the same commit, a folder with a log, and a script that prints it."""
    from comparing import make_runs, scaled
    from making import make_cell

    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):  # where `check` writes too
        monkeypatch.delenv(name, raising=False)
    make_runs(Path("runs"))
    assert main(["check", "--update"]) == 0
    make_runs(Path("runs"))
    make_runs(Path("slower"), scaled(0.9), commit="b2")
    make_runs(Path("paddle"), cell=make_cell(framework="paddle"), framework="paddle 3.3")
    line = "Epoch: [0][{}/60]\tTime  0.1000 ( 0.1000)\tData  0.000 ( 0.000)\tLoss 6.9 (6.9)\tAcc@1   0.0 (  0.0)\n"
    Path("logs").mkdir()
    Path("logs/0.log").write_text("".join(line.format(step) for step in range(60)))
    Path("train.py").write_text("print(open('logs/0.log').read())")


@pytest.mark.usefixtures("some_results")
@pytest.mark.parametrize(
    ("argv", "prints"),
    [
        ("list --json", '"resnet50"'),
        ("plan quick --json", "torch is not installed"),
        ("doctor --json", "no framework is installed"),
        ("show --json", '"value": 100.'),
        ("export --format csv", ",100.2,images/s,"),
        ("report", "trains at 100.0 images/s"),
        ("report --format html", "<!doctype html>"),
        ("compare runs slower", "B (slower) is 10.0% slower than A (runs)"),
        ("compare runs paddle", "A (runs) and B (paddle) are not comparable: torch and paddle"),
        ("check", "pass: no regression in 1 cell"),
        ("import logs --store imported --json", '"value": 10.'),
        ("mark --print", "def step("),
        ("data make imagenet images --images 8 --classes 2", "6 training and 2 validation images"),
        ("run --store own --json -- PYTHON train.py", '"value": 10.'),
    ],
)
def test_only_workloads_need_a_framework(argv: str, prints: str) -> None:
    done = _run_without_frameworks(*argv.replace("PYTHON", sys.executable).split())
    assert done.returncode == 0, done.stderr
    assert prints in done.stdout


def test_asking_for_a_framework_that_is_not_installed_gives_the_command_that_installs_it(tmp_path: Path) -> None:
    words = ["run", "resnet50", "--framework", "paddle,jax", "--size", "small", "--store", str(tmp_path / "store")]
    done = _run_without_frameworks(*words)
    assert done.returncode == 2, "nothing can run"
    for name in ("paddle", "jax"):
        assert f"{name} is not installed; pip install {required_extra(name)}" in done.stderr


def _run_without_frameworks(*words: str) -> subprocess.CompletedProcess[str]:
    """All frameworks made impossible to import, as on a bare install."""
    code = (
        f"import sys\nfor name in {list(FRAMEWORKS)}: sys.modules[name] = None\n"
        "from trainmark.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("extra", ["torch", "paddle", "jax"])
def test_the_lock_that_ci_installs_satisfies_every_extra(extra: str) -> None:
    """CI starts on a bare machine, so that its set-up is an installation of all extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "locks" / "dev.txt").read_text().splitlines()
    pinned: dict[str, list[str]] = {}  # some have a version of their own for old Pythons
    for name, version in (line.split()[0].split("==") for line in lines if "==" in line.split(" ")[0]):
        pinned.setdefault(name, []).append(version)
    for text in (*project["dependencies"], *project["optional-dependencies"][extra]):
        wanted = Requirement(text)
        versions = pinned.get(wanted.name)
        assert versions, f"{text} is not in locks/dev.txt: run make lock"
        assert all(version in wanted.specifier for version in versions)


DISTRIBUTIONS = {"PIL": "pillow", "cv2": "opencv-python-headless", "pynvml": "nvidia-ml-py", "markupsafe": "jinja2"}
"""Where the name differs from that of the module; MarkupSafe comes with Jinja."""
ONLY_MASK_RCNN = {"jax": {"pycocotools"}}
"""JAX does not have it."""


@pytest.mark.parametrize("extra", ["torch", "paddle", "jax"])
def test_every_extra_brings_what_the_shared_code_imports(extra: str) -> None:
    """Not by luck: PyTorch and Paddle bring Pillow, JAX does not, and `data make` failed there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {Requirement(text).name for text in (*project["dependencies"], *project["optional-dependencies"][extra])}
    used = {name.split(".")[0] for path in MODULES for name in imports_of(path)}
    used -= {*sys.stdlib_module_names, *FRAMEWORKS, "trainmark", "", "sitecustomize"}
    missing = {DISTRIBUTIONS.get(name, name) for name in used} - declared
    assert missing == ONLY_MASK_RCNN.get(extra, set())


def test_no_registry_host_and_no_path_of_a_machine_in_the_tree() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    for name in tracked:
        text = (ROOT / name).read_text(errors="replace")
        for forbidden in ("--index-" + "url", "/simple" + "/", "/wo" + "rk/", "/ro" + "ot/"):
            assert forbidden not in text.replace("--no-emit-index-" + "url", ""), f"{name} names {forbidden}"
