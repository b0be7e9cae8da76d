"""Supervision with real processes, none of them a framework."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from trainmark.launch import supervise as module
from trainmark.launch import worker_source
from trainmark.launch.job import Command
from trainmark.launch.processes import find
from trainmark.messages.endings import controller_stopped
from trainmark.messages.message import Message
from trainmark.runfolder.files import EXIT_FILE, OUTPUT_FILE, RUN_FILE, Json, read_json, write_json
from trainmark.runfolder.records import RUN_TAG, Outcome
from trainmark.store.folder import read_run
from waiting import wait_until

STEP = '{"kind":"step","step":%d,"seconds":0.01,"samples":4}\n'


def write_worker(folder: Path, body: str) -> Command:
    script = folder / "worker.py"
    script.write_text(f"import os, sys, time, subprocess, signal\nfolder = {str(folder)!r}\n{body}\n")
    return Command(argv=(sys.executable, str(script)), environment={RUN_TAG: folder.name})


def run(folder: Path, body: str, *, timeout_s: float = 20.0, observe: module.Observer = lambda _: None) -> Outcome:
    command = write_worker(folder, body)
    ending = module.supervise(folder, folder.name, [command], launcher="local", timeout_s=timeout_s, observe=observe)
    document = read_json(folder / EXIT_FILE)
    assert document is not None
    assert document["outcome"] == ending.outcome
    assert find(folder.name) == []
    return ending.outcome


def test_a_worker_that_says_ok_is_ok(tmp_path: Path) -> None:
    body = 'open(folder + \'/rank0.jsonl\', \'w\').write(\'{"kind":"run_end","outcome":"ok","reason":"x"}\\n\')'
    assert run(tmp_path, body) is Outcome.OK


def test_a_worker_that_dies_is_failed_and_its_output_kept(tmp_path: Path) -> None:
    assert run(tmp_path, "print('hello'); sys.exit(3)") is Outcome.FAILED
    assert (tmp_path / OUTPUT_FILE).read_text() == "hello\n"


def test_a_clock_that_is_set_back_changes_no_duration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(10**9, 0, -(10**6)))
    monkeypatch.setattr(module.time, "time", lambda: float(next(now)))
    run(tmp_path, "print('hello')")
    document = read_json(tmp_path / EXIT_FILE)
    assert document is not None
    assert document["ended_unix_s"] < document["started_unix_s"]
    assert 0 < document["wall_s"] < 60


def test_a_killed_worker_is_killed(tmp_path: Path) -> None:
    assert run(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)") is Outcome.KILLED


def test_a_worker_killed_after_its_last_step_keeps_its_result_with_a_warning(tmp_path: Path) -> None:
    write_json(tmp_path / RUN_FILE, {"cell": {}, "unit": "images"})
    end = '{"kind":"run_end","outcome":"ok","reason":"1 step done","unix_s":1.0}'
    body = f"open(folder + '/rank0.jsonl', 'w').write({STEP % 1 + end + chr(10)!r}); os.kill(os.getpid(), 9)"
    assert run(tmp_path, body) is Outcome.OK
    row = read_run(tmp_path)
    assert row is not None
    warning = next(warning for warning in row.warnings if warning["code"] == "died-after-last-step")
    assert warning["message"].startswith("all steps were done and recorded; then: SIGKILL")


def test_a_time_out_ends_the_whole_tree_and_nothing_else(tmp_path: Path) -> None:
    """The grandchild has its own session and ignores SIGTERM, as torchrun's workers may."""
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    body = f"subprocess.Popen([sys.executable, '-c', {stubborn!r}], start_new_session=True); time.sleep(60)"
    try:
        assert run(tmp_path, body, timeout_s=1.0) is Outcome.TIMEOUT
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_process_without_the_tag_is_ended_too(tmp_path: Path) -> None:
    """`env -i` and some containers give their processes an environment of their own."""
    body = "subprocess.Popen(['env', '-i', 'sleep', '61']); os.execvp('env', ['env', '-i', 'sleep', '62'])"
    assert run(tmp_path, body, timeout_s=1.0) is Outcome.TIMEOUT
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # a zombie is not left either
            left += process.cmdline()[-1:] if process.name() == "sleep" else []
    assert not {"61", "62"} & set(left)


def test_our_end_of_a_remote_shell_is_asked_last(tmp_path: Path) -> None:
    """With it the processes over there would lose their terminal, and the time for a checkpoint."""
    said, asked = tmp_path / "said", tmp_path / "asked"
    body = f"""
def note(*_):
    open({str(said)!r}, 'w').write(str(time.time()))
    sys.exit(1)
signal.signal(signal.SIGTERM, note)
time.sleep(60)"""
    cancel = f"import time; time.sleep(1); open({str(asked)!r}, 'w').write(str(time.time()))"
    command = replace(write_worker(tmp_path, body), cancel=(sys.executable, "-c", cancel))
    module.supervise(tmp_path, tmp_path.name, [command], launcher="x", timeout_s=1.0, observe=lambda _: None)
    assert float(said.read_text()) >= float(asked.read_text())


@pytest.mark.serial
def test_silence_is_a_hang(tmp_path: Path) -> None:
    """A process that stopped itself is named, woken for its stacks and ended."""
    write_json(tmp_path / RUN_FILE, {"cell": {}, "measure": {"hang_least_s": 0.5, "hang_factor": 20.0}})
    steps = "".join(STEP % n for n in range(10))
    body = (
        "import faulthandler, json\n"
        "out = open(folder + '/rank0.jsonl', 'w')\n"
        "out.write(json.dumps({'kind': 'run_start', 'pid': os.getpid(), 'host': os.uname().nodename}) + '\\n')\n"
        f"out.write({steps!r}); out.flush()\n"
        "faulthandler.dump_traceback_later(0.1, file=open(folder + '/rank0.stacks', 'w'))\n"
        "os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)"
    )
    assert run(tmp_path, body) is Outcome.HANG
    document = read_json(tmp_path / EXIT_FILE)
    assert document is not None
    assert document["reason"].startswith("no step for 1 s (usual step 10 ms): rank 0 (pid ")
    assert document["reason"].endswith("is stopped")
    assert document["look_at"] == "rank0.stacks"
    assert "worker.py" in (tmp_path / "rank0.stacks").read_text()


@pytest.mark.serial
def test_what_hangs_after_the_end_does_not_spoil_a_finished_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_source, "_TEARDOWN_S", 0.5)
    measure = {"hang_least_s": 0.2, "hang_factor": 2}
    write_json(tmp_path / "run.json", {"cell": {}, "measure": measure})
    lines = "".join(STEP % n for n in range(10))
    lines += '{"kind":"run_end","outcome":"ok","reason":"10 steps done","unix_s":1.0}\n'
    body = f"open(folder + '/rank0.jsonl', 'w').write({lines!r}); time.sleep(60)"
    assert run(tmp_path, body) is Outcome.OK
    ending = read_json(tmp_path / "exit.json")
    assert ending is not None
    assert ending["reason"] == "10 steps done; its processes did not exit by themselves"


def test_the_observer_stops_a_run(tmp_path: Path) -> None:
    body = (
        "out = open(folder + '/rank0.jsonl', 'w', buffering=1)\n"
        "for n in range(2000):\n"
        f"    out.write({STEP!r} % n)\n"
        "    time.sleep(0.005)\n"
        "    if os.path.exists(folder + '/stop'): break\n"
        'out.write(\'{"kind":"run_end","outcome":"ok","reason":"%d"}\\n\' % n)\n'
    )
    seen: list[int] = []

    def observe(new: list[Json]) -> Message | None:
        seen.extend(record["step"] for record in new if record["kind"] == "step")
        return controller_stopped() if len(seen) >= 50 else None

    assert run(tmp_path, body, observe=observe) is Outcome.OK
    assert 50 <= len(seen) < 2000
    assert Message.from_json(read_json(tmp_path / "stop") or {}) == controller_stopped()


def test_an_observer_that_fails_leaves_an_end_and_no_process(tmp_path: Path) -> None:
    def observe(_: list[Json]) -> Message | None:
        raise RuntimeError("the screen broke")

    with pytest.raises(RuntimeError, match="screen broke"):
        run(tmp_path, f"open(folder + '/rank0.jsonl', 'w').write({STEP % 1!r}); time.sleep(60)", observe=observe)
    document = read_json(tmp_path / EXIT_FILE)
    assert document is not None
    assert document["outcome"] == Outcome.KILLED, "the controller's trouble is no answer of the run"
    assert document["reason"] == "the controller failed: RuntimeError: the screen broke"
    assert find(tmp_path.name) == []


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs Linux: the kernel ends the worker with its parent")
def test_a_controller_killed_with_9_leaves_no_orphan(tmp_path: Path) -> None:
    command = write_worker(tmp_path, "time.sleep(60)")
    source = (
        "import sys; from pathlib import Path; from trainmark.launch.supervise import supervise; "
        "from trainmark.launch.job import Command\n"
        f"command = Command(argv={command.argv!r}, environment={dict(command.environment)!r})\n"
        f"folder, name = Path({str(tmp_path)!r}), {tmp_path.name!r}\n"
        "supervise(folder, name, [command], launcher='l', timeout_s=60, observe=lambda n: None)"
    )
    controller = subprocess.Popen([sys.executable, "-c", source])
    workers = wait_until(lambda: find(tmp_path.name), what="a worker is running")
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
