"""`trainmark run -- CMD` with the observer: scripts that print nothing that we know still have a speed, or a reason.

A stub of torch with a clock of its own keeps this fast; `tests/unit/observe` has the real one.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from making import STUB_TORCH
from trainmark.cli.main import main


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    library = tmp_path / "library" / "torch"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(STUB_TORCH)
    python_path = os.pathsep.join(part for part in (str(library.parent), os.environ.get("PYTHONPATH")) if part)
    monkeypatch.setenv("PYTHONPATH", python_path)
    return tmp_path / "store"


def run(
    store: Path,
    code: str,
    *options: str,
    flags: tuple[str, ...] = (),
    capsys: pytest.CaptureFixture[str],
    exits: int = 0,
) -> dict[str, Any]:
    script = store.parent / "script.py"
    script.write_text(code)
    words = ["run", "--store", str(store), "--json", *options, "--", sys.executable, *flags, str(script)]
    assert main(words) == exits
    (result,) = json.loads(capsys.readouterr().out)["results"]
    return dict(result)


def codes(result: dict[str, Any]) -> set[str]:
    return {warning["code"] for warning in result["warnings"]}


TRAINS = "import torch, time\nopt = torch.Optimizer()\nfor _ in range(30):\n    time.sleep(0.004); opt.step()\n"


def test_a_silent_script_has_a_speed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a data loader or a model, only steps are known."""
    result = run(store, TRAINS, capsys=capsys)
    assert (result["witness"], result["dialect"], result["records"]) == ("observer", "observer", 29)
    assert result["throughput"]["unit"] == "iterations/s"
    assert 1 / 0.4 < result["witnesses"]["observer"] < 1 / 0.004
    assert result["witnesses"]["clock"] == pytest.approx(result["witnesses"]["observer"], rel=0.02)


def test_two_processes_add_up(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = f"import os\nif os.fork() == 0:\n    os.environ['RANK'] = '1'\n{TRAINS}\n"
    code += "try: os.wait()\nexcept ChildProcessError: pass\n"
    result = run(store, code, capsys=capsys)
    assert (result["devices"], result["witness"], result["records"]) == (2, "observer", 29)


@pytest.mark.parametrize("flag", ["-S", "-I", "-E"])
def test_a_script_that_hides_from_the_hook_says_why_it_has_no_speed(
    store: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    result = run(store, "print('trained')", flags=(flag,), capsys=capsys, exits=1)
    assert result["outcome"] == "ok"
    assert {"not-observed", "no-records"} <= codes(result)
    (warning,) = (warning for warning in result["warnings"] if warning["code"] == "not-observed")
    assert warning["params"]["why"]["code"] == "hook-not-loaded"


@pytest.mark.parametrize(
    ("code", "why"),
    [("print('hello')", "no-framework"), ("import torch\ntorch.Optimizer().step()", "observer-failed")],
)
def test_why_nothing_was_observed(store: Path, capsys: pytest.CaptureFixture[str], code: str, why: str) -> None:
    result = run(store, code, capsys=capsys, exits=1)
    (warning,) = (warning for warning in result["warnings"] if warning["code"] == "not-observed")
    assert warning["params"]["why"]["code"] == why


def test_no_observe_leaves_the_processes_alone(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = TRAINS + "import os\nprint(os.environ['PYTHONPATH'], 'TRAINMARK_OBSERVE' in os.environ)\n"
    result = run(store, code, "--no-observe", capsys=capsys, exits=1)
    assert not list((store / result["id"]).glob("*observe*"))
    output = (store / result["id"] / "output.log").read_text().split()
    assert output == [os.environ["PYTHONPATH"], "False"]
    assert "not-observed" not in codes(result), "nobody looked"


MARKED = """
import time
from trainmark import mark
for number in range(8):
    time.sleep(0.002); mark.step(samples=-3 if number == 4 else 8)
"""


def test_a_mark_with_impossible_samples_is_an_error_of_the_run(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(store, MARKED, capsys=capsys, exits=1)
    assert (result["outcome"], result["throughput"]) == ("failed", None)
    assert result["reason"] == "mark.step(samples=-3) at step 4: samples must be a finite number >= 0"


def test_mark_works_without_trainmark_from_its_one_file(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mark", "--print"]) == 0
    (store.parent / "mark.py").write_text(capsys.readouterr().out)
    monkeypatch.setenv("PYTHONPATH", str(store.parent / "library"))
    code = MARKED.replace("from trainmark import mark", "import mark").replace("-3", "8")
    (store.parent / "script.py").write_text(code)
    words = ["run", "--store", str(store), "--json", "--", "/usr/bin/python3", str(store.parent / "script.py")]
    if not Path("/usr/bin/python3").exists():
        pytest.skip("no Python without trainmark on this machine")
    assert main(words) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert (result["witness"], result["records"]) == ("mark", 7)
