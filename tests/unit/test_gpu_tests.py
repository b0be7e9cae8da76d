"""`scripts/gpu-tests` reports success only if tests have run, and loses nothing when it is cut off."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from waiting import wait_until

_SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu-tests"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    loader = SourceFileLoader("gpu_tests", str(_SCRIPT))
    spec = importlib.util.spec_from_loader("gpu_tests", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_tests", module)
    loader.exec_module(module)
    return module


def test_every_file_of_the_tests_has_a_process(script: Any) -> None:
    files = {path.name for path in (_SCRIPT.parents[1] / "tests" / "gpu").glob("test_*.py")}
    assert {file for file, _ in script.CASES} == files


def program(text: str, code: int) -> list[str]:
    return [sys.executable, "-c", f"print({text!r}); raise SystemExit({code})"]


@pytest.mark.parametrize(
    ("ends", "is_success"),
    [
        ([("1 passed in 1 s", 0), ("2 passed, 1 skipped in 1 s", 0)], True),
        ([("1 passed in 1 s", 0), ("1 failed, 1 passed in 1 s", 1)], False),
        ([("1 passed in 1 s", 0), ("ERROR: unrecognized arguments", 4)], False),
        ([("1 skipped in 1 s", 0)], False),
        ([], False),
    ],
)
def test_success_is_that_every_process_ends_well_and_a_test_passes(
    script: Any, tmp_path: Path, ends: list[tuple[str, int]], is_success: bool
) -> None:
    results = script.Results(folder=tmp_path, waiting=[])
    for number, (text, code) in enumerate(ends):
        log = tmp_path / f"{number}.log"
        with log.open("w") as file:
            process = subprocess.Popen(program(text, code), stdout=file)
        process.wait()
        results.add(script.Running(name=f"case {number}", log=log, process=process))
        # All of it is there after each case, not only at the end.
        assert text in (tmp_path / "tests.txt").read_text()
        assert json.loads((tmp_path / "summary.json").read_text())["exit_codes"][f"case {number}"] == code
    assert results.is_success is is_success


def test_pytest_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    argv = [sys.executable, _SCRIPT, "--output", tmp_path, "--only", "observer"]
    environment = {**os.environ, "PYTEST_ADDOPTS": "--no-such-option"}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stdout
    assert "no test has run" in done.stdout
    assert json.loads((tmp_path / "summary.json").read_text())["exit_codes"] == {"test_observer_on_gpu.py": 4}
    assert "--no-such-option" in (tmp_path / "tests.txt").read_text()


def test_a_script_that_is_ended_keeps_what_a_case_has_printed(tmp_path: Path) -> None:
    slow = "import sys, time\nif 'pytest' in sys.orig_argv:\n    print('began', flush=True)\n    time.sleep(60)\n"
    (tmp_path / "sitecustomize.py").write_text(slow)
    output = tmp_path / "out"
    argv = [sys.executable, _SCRIPT, "--output", output, "--only", "observer"]
    running = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(tmp_path)}, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: any("began" in log.read_text() for log in output.glob("*.log")), what="the case has begun")
    finally:
        running.terminate()
        assert running.wait(timeout=20) == 128 + signal.SIGTERM
    assert json.loads((output / "summary.json").read_text())["unfinished"] == ["test_observer_on_gpu.py"]
    assert "began" in (output / "tests.txt").read_text()
