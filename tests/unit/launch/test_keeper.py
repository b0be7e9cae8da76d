"""No descendant of a command survives it: real processes that hide from the search by tag and by session."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from trainmark.launch.job import Command
from trainmark.launch.processes import Root, end
from waiting import wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")

HIDDEN = "env -i setsid sh -c 'echo $$ >> {pids}; exec sleep 300' & "
"""Neither the tag nor the session of the run."""
DOUBLE = "env -i setsid sh -c '(trap \"\" TERM; echo $$ >> {pids}; while :; do sleep 300; done) & ' & "
"""Its parent ends at once, and it ignores SIGTERM."""


def command(text: str, pids: Path) -> Command:
    return Command(argv=("sh", "-c", text.format(pids=pids)), environment={})


def started(pids: Path, count: int) -> list[int]:
    return [int(line) for line in pids.read_text().split()] if pids.exists() and count_lines(pids) >= count else []


def count_lines(path: Path) -> int:
    return path.read_text().count("\n")


def is_running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def run(text: str, tmp_path: Path, stop: Callable[[Root], None]) -> tuple[Root, list[int]]:
    """Start the text of a shell script, let `stop` end it once two hidden processes run, and return their pids."""
    pids = tmp_path / "pids"
    with (tmp_path / "output").open("wb") as output:
        root = Root(command(text, pids), output=output)
        hidden = wait_until(lambda: started(pids, 2), what="two hidden processes run")
        stop(root)
        wait_until(root.is_over, what="the command has ended")
        end("no-tag", [root])
    return root, hidden


def test_what_is_left_after_a_normal_end_is_ended(tmp_path: Path) -> None:
    waits = "while [ ! -e {pids}.go ]; do sleep 0.02; done; exit 3"
    root, hidden = run(HIDDEN + HIDDEN + waits, tmp_path, lambda _: (tmp_path / "pids.go").touch())
    assert root.poll() == 3
    assert not any(map(is_running, hidden))


def test_what_hides_is_ended_with_the_run(tmp_path: Path) -> None:
    """As after a time limit or SIGTERM."""
    root, hidden = run(HIDDEN + DOUBLE + "exec sleep 300", tmp_path, lambda root: end("no-tag", [root], grace_s=5.0))
    assert root.poll() == -signal.SIGTERM
    assert not any(map(is_running, hidden))


def test_nothing_survives_a_controller_killed_with_9(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    source = (
        "import sys, time; from trainmark.launch.job import Command; from trainmark.launch.processes import Root\n"
        f"command = Command(argv={command(HIDDEN + DOUBLE + 'wait', pids).argv!r}, environment={{}})\n"
        "root = Root(command, output=sys.stdout)\n"
        "time.sleep(300)"
    )
    controller = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.DEVNULL)
    hidden = wait_until(lambda: started(pids, 2), what="two hidden processes run")
    controller.kill()
    controller.wait()
    wait_until(lambda: not any(map(is_running, hidden)), what="the hidden processes have ended")


def test_a_command_that_cannot_be_started_is_an_error_at_once(tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as output, pytest.raises(FileNotFoundError, match="no-such-program"):
        Root(Command(argv=("no-such-program",), environment={}), output=output)


def test_the_command_sees_the_usual_signals_and_descriptors(tmp_path: Path) -> None:
    """Only standard streams are open, standard input is empty, and no signal is ignored or blocked."""
    source = (
        "import os, signal, sys; print(sorted(map(int, os.listdir('/proc/self/fd')))[:4], sys.stdin.read(), "
        "[n for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD) if signal.getsignal(n) != signal.SIG_DFL], "
        "os.environ.get('GIVEN'))"
    )
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # with nohup the tests and all they start ignore it
    try:
        with (tmp_path / "output").open("w+b") as output:
            root = Root(Command(argv=(sys.executable, "-c", source), environment={"GIVEN": "yes"}), output=output)
            wait_until(root.is_over, what="the command has ended")
            end("no-tag", [root])
            output.seek(0)
            said = output.read().decode()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert said == "[0, 1, 2, 3]  [] yes\n"  # 3 is the folder that listdir reads


def test_a_keeper_that_is_killed_leaves_nobody(tmp_path: Path) -> None:
    """Nobody is left who knows of the hidden processes; the kernel gives them to the controller."""

    def kill_keeper(root: Root) -> None:
        assert root.keeper is not None
        psutil.Process(root.keeper).kill()

    _, hidden = run(HIDDEN + DOUBLE + "sleep 300", tmp_path, kill_keeper)
    assert not any(is_running(pid) for pid in hidden)


def test_a_keeper_that_is_killed_after_the_command_leaves_nobody(tmp_path: Path) -> None:
    def end_command_and_keeper(root: Root) -> None:
        psutil.Process(root.pid).terminate()
        wait_until(lambda: root.poll() is not None, what="the command has ended")
        assert root.keeper is not None
        psutil.Process(root.keeper).kill()

    root, hidden = run(HIDDEN + HIDDEN + "sleep 300", tmp_path, end_command_and_keeper)
    assert root.poll() == -signal.SIGTERM
    assert not any(is_running(pid) for pid in hidden)
