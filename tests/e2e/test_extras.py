"""`pip install '.[paddle]'` and `'.[jax]'`: what they bring is enough to make data, to train and to report.

By uv, which resolves and builds from the same metadata as pip; the versions are those of the lock, whose files `make`
has just fetched.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_UV = Path(sys.executable).with_name("uv")
_UNREACHABLE = ("dns error", "error sending request", "network was disabled")


@pytest.fixture
def venv(tmp_path: Path) -> Iterator[Path]:
    """Removed at once: it has a gigabyte where files cannot be linked."""
    yield tmp_path / "venv"
    shutil.rmtree(tmp_path / "venv", ignore_errors=True)


@pytest.mark.skipif(not _UV.exists(), reason="no uv beside this Python: `make test` brings it")
@pytest.mark.parametrize("name", ["paddle", "jax"])
def test_one_framework_alone_is_enough(name: str, venv: Path, tmp_path: Path) -> None:
    program = install(name, venv)

    def trainmark(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        own = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        argv = [str(program), *words]
        done = subprocess.run(argv, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == code, done.stderr
        return done

    trainmark("data", "make", "imagenet", "data", "--images", "12", "--classes", "2", "--val-fraction", "0.34")
    small = ["run", "resnet50", "--size", "small", "--device", "cpu", "--batch-size", "4"]
    trained = trainmark(*small, "--data", "data", "--epochs", "1", "--lr", "0.001", "--json")
    [result] = json.loads(trained.stdout)["results"]
    assert (result["outcome"], result["framework"]) == ("ok", name), "the only one is taken without being asked for"
    assert [found["metric"] for found in result["evals"]] == ["top1", "top5"]
    for output in ("report.md", "report.html"):
        trainmark("report", "--lang", "zh", "--output", output)
    missing = trainmark(*small, "--framework", "torch", code=2)
    assert f"pip install '{ROOT}[torch]'" in missing.stderr, "from where this one was installed"


def install(name: str, folder: Path) -> Path:
    """Into a new environment; its `trainmark`."""
    python = folder / "bin" / "python"
    subprocess.run([_UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    words = ["pip", "install", "--quiet", "--python", python, "--constraints", ROOT / "locks" / "dev.txt"]
    done = subprocess.run([_UV, *words, f"{ROOT}[{name}]"], capture_output=True, text=True, timeout=300, check=False)
    if any(reason in done.stderr for reason in _UNREACHABLE):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    return folder / "bin" / "trainmark"
