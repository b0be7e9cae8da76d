"""The processes of a parity check: what they leave is kept, and none outlives the check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from making import make_probe_request, make_workload_cell
from trainmark.controller import parity_code
from trainmark.controller.parity_code import CodeChangedError, CodeWatch
from trainmark.controller.parity_probes import ProcessProber
from trainmark.errors import RunError
from trainmark.frameworks import Framework
from trainmark.worker.probe import (
    PARENT_VARIABLE,
    EpochRequest,
)
from trainmark.worker.probe_files import write_request


def test_a_process_that_dies_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    code = "import sys; print('Traceback\\nno room'); sys.exit(3)"
    told: list[str] = []
    prober = ProcessProber(tmp_path / "probe", tell=told.append, command=(sys.executable, "-c", code))
    request = EpochRequest(cell=make_workload_cell(framework="paddle"), num_steps=1)
    with pytest.raises(RunError, match=r"^paddle ended with exit code 3: the process ended without a result$") as error:
        prober.run_epochs([request])
    assert told[1:] == ["  Traceback", "  no room"]
    assert "\n" not in error.value.what + error.value.why


_ANSWER = """
import sys
import time
from pathlib import Path
import numpy as np
from trainmark.worker.probe import ProbeResult
from trainmark.worker.probe_files import read_request, write_result

for folder in map(Path, sys.argv[1:]):
    request = read_request(folder)
    with open(LOG, "a") as log:
        log.write(f"{request.framework} {len(request.rates)}\\n")
    if request.framework == "jax" and not Path(LOG + ".ok").exists():
        sys.exit(1)
    write_result(folder, ProbeResult(losses=np.array(request.rates), facts={"framework": request.framework}))
"""


def test_an_interrupted_check_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = (sys.executable, "-c", f"LOG = {str(log)!r}\n{_ANSWER}")
    requests = [
        make_probe_request(framework=name, rates=(0.1,) * steps)
        for name, steps in (("torch", 1), ("jax", 2), ("torch", 3))
    ]

    def ask() -> list[float]:
        prober = ProcessProber(tmp_path / "probe", tell=lambda _: None, command=command, jobs=3)
        return [len(result.losses) for result in prober.run_steps(requests)]

    with pytest.raises(RunError, match="jax ended with exit code 1"):
        ask()
    (tmp_path / "log.ok").touch()
    assert ask() == [1, 2, 3]
    assert sorted(log.read_text().split("\n")) == ["", "jax 2", "jax 2", "torch 1", "torch 3"]
    assert ask() == [1, 2, 3]
    assert log.read_text().count("\n") == 4
    assert not list((tmp_path / "probe").glob("*/request.*"))


@pytest.mark.parametrize("damage", ["result.json", "result.npz", "other schema", "half a failure"])
def test_a_kept_result_that_cannot_be_read_is_computed_again(damage: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = (sys.executable, "-c", f"LOG = {str(log)!r}\n{_ANSWER}")

    def ask() -> list[float]:
        prober = ProcessProber(tmp_path / "probe", tell=lambda _: None, command=command)
        [result] = prober.run_steps([make_probe_request(rates=(0.1, 0.2))])
        return result.losses.tolist()

    assert ask() == [0.1, 0.2]
    [folder] = (path.parent for path in (tmp_path / "probe").glob("*/result.json"))
    if damage == "other schema":
        document = json.loads((folder / "result.json").read_text())
        (folder / "result.json").write_text(json.dumps({**document, "schema": 1}))
    elif damage == "half a failure":
        (folder / "failure.json").write_text('{"why": "no ro')
    else:
        content = (folder / damage).read_bytes()
        (folder / damage).write_bytes(content[: len(content) // 2])
    assert ask() == [0.1, 0.2]
    assert log.read_text().count("\n") == 2


def test_kept_results_are_of_one_code_of_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    command = (sys.executable, "-c", f"LOG = {str(log)!r}\n{_ANSWER}")

    def ask() -> int:
        prober = ProcessProber(tmp_path / "probe", tell=lambda _: None, command=command)
        prober.run_steps([make_probe_request(rates=(0.1,))])
        return log.read_text().count("\n")

    assert (ask(), ask()) == (1, 1)
    monkeypatch.setattr(parity_code, "read_check_code", lambda _: "other")
    assert ask() == 2


def test_kept_results_are_of_one_set_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a check that was interrupted and resumed without a variable would prove what it has not computed."""
    log = tmp_path / "log"
    (tmp_path / "log.ok").touch()
    command = (sys.executable, "-c", f"LOG = {str(log)!r}\n{_ANSWER}")

    def ask(framework: str) -> int:
        prober = ProcessProber(tmp_path / "probe", tell=lambda _: None, command=command)
        prober.run_steps([make_probe_request(framework=framework, rates=(0.1,))])
        return log.read_text().count("\n")

    assert (ask("torch"), ask("jax")) == (1, 2)
    monkeypatch.setenv("JAX_DEFAULT_MATMUL_PRECISION", "bfloat16")
    assert (ask("torch"), ask("jax"), ask("jax")) == (2, 3, 3)


@pytest.mark.parametrize("changed", ["read_training_code", "read_check_code", "installed version"])
@pytest.mark.parametrize("is_running", [False, True])
def test_code_that_changes_during_a_check_ends_it(
    is_running: bool, changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the proof would name the previous code, and processes that started later have loaded another one."""

    def change() -> None:
        if changed == "installed version":
            monkeypatch.setattr(Framework, "installed_version", lambda _: "99.0")
        else:
            monkeypatch.setattr(parity_code, changed, lambda *_: "other")

    class Updated(ProcessProber):
        def _start(self, folders: Sequence[Path]) -> subprocess.Popen[bytes] | None:
            process = super()._start(folders)
            if has_begun:
                change()
            return process

    log, has_begun = tmp_path / "log", False
    prober = Updated(tmp_path / "probe", tell=print, command=(sys.executable, "-c", f"LOG = {str(log)!r}\n{_ANSWER}"))
    prober.run_steps([make_probe_request(rates=(0.1,))])
    has_begun = True
    if not is_running:
        change()
    with pytest.raises(RunError, match="was changed during the check") as error:
        prober.run_steps([make_probe_request(rates=(0.1, 0.2))])
    assert "start it again" in str(error.value.hint)
    assert log.read_text().count("\n") == (2 if is_running else 1), "nothing starts after a change"
    assert len(list((tmp_path / "probe").iterdir())) == 1, "what the changed code has computed does not stay"


def test_code_that_changes_ends_the_check_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would compute for an hour what nobody uses; the processes of jax sleep longer than this test may take.

    The second one waits for a free place when torch's process ends, which ends once that of jax has started.
    """
    started, log = tmp_path / "started", tmp_path / "log"
    sleep = (
        f"import pathlib, sys, time\nSTARTED = pathlib.Path({str(started)!r})\n"
        "if '\"jax\"' in open(sys.argv[1] + '/request.json').read(): STARTED.touch(); time.sleep(600)\n"
        "while not STARTED.exists(): time.sleep(0.01)\n"
    )
    command = (sys.executable, "-c", f"{sleep}LOG = {str(log)!r}\n{_ANSWER}")
    monkeypatch.setattr(CodeWatch, "has_changed", lambda *_: log.exists())  # torch's process has answered
    prober = ProcessProber(tmp_path / "probe", tell=lambda _: None, command=command, jobs=2)
    three = (("jax", "fp32"), ("torch", "fp32"), ("jax", "bf16"))
    with pytest.raises(CodeChangedError):
        prober.run_steps([make_probe_request(framework=name, precision=kind, rates=(0.1,)) for name, kind in three])
    assert log.read_text().count("\n") == 1, "the third one has not started"
    assert not list((tmp_path / "probe").glob("*/result.json"))


def test_a_process_whose_check_was_killed_before_it_began_computes_nothing(tmp_path: Path) -> None:
    request = make_probe_request(framework="none", rates=(0.1,))
    write_request(tmp_path / "request", request)
    command = [sys.executable, "-m", "trainmark.worker.probe", str(tmp_path / "request")]
    for parent, has_begun in ((os.getpid(), True), (1, False)):
        done = subprocess.run(
            command, env={**os.environ, PARENT_VARIABLE: str(parent)}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert ("Traceback" in done.stderr) == has_begun


def test_a_killed_check_takes_its_processes_with_it(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time; probe = subprocess.Popen([sys.executable, '-m', 'trainmark.worker.probe', "
        "sys.argv[1]]); print(probe.pid, flush=True); time.sleep(600)"
    )
    folder = tmp_path / "request"
    folder.mkdir()
    os.mkfifo(folder / "request.json")
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        process = psutil.Process(int(parent.stdout.readline()))
        pipe = open_when_read(folder / "request.json")
        parent.kill()  # the probe waits for a line now
        process.wait(timeout=60)
        os.close(pipe)


def open_when_read(path: Path) -> int:
    """A pipe, as soon as another process reads it."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert time.monotonic() < deadline, "nobody reads it"
            time.sleep(0.02)


_INTERRUPTED = """
import os, signal, sys
from pathlib import Path
from trainmark.controller.parity_probes import ProcessProber
from trainmark.worker.probe import EpochRequest
from trainmark.runfolder.document import WorkloadCell

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
child = "import os, signal, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(600)"
prober = ProcessProber(Path(sys.argv[1]), tell=print, command=(sys.executable, "-c", child), jobs=2)
try:
    prober.run_epochs([EpochRequest(cell=WorkloadCell(**CELL), num_steps=1)])
except KeyboardInterrupt:
    print("interrupted", [process.returncode for process in prober._running])
"""


def test_an_interrupted_check_leaves_no_process_behind(tmp_path: Path) -> None:
    """Without that it would wait ten minutes for its process."""
    code = f"CELL = {vars(make_workload_cell(framework='paddle'))!r}\n{_INTERRUPTED}"
    argv = [sys.executable, "-c", code, str(tmp_path / "probe")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines()[-1:] == ["interrupted []"], done.stderr
