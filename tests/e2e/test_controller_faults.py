"""Signals at any moment, a full disk, a locked store: no finished run is lost, no process left, no wrong `ok`."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from controllers import finished, folders, living

from trainmark.cli.main import main
from trainmark.cli.output import open_store
from trainmark.runfolder.files import read_json
from trainmark.runfolder.records import read_records
from trainmark.store import database, index, index_file
from waiting import wait_until

NUM_REPETITIONS = int(os.environ.get("TRAINMARK_REPETITIONS", "12"))
"""The issue's 200 take two minutes; CI makes some of them."""
LINES = """
import sys, time
for i in range(12):
    print(f"Epoch: [0][{i}/12]\\tTime  0.100 ( 0.1)\\tLoss {1 / (i + 1):.4f} (1.0)", flush=True)
    time.sleep(0.004)
"""
FLOOD = """
line = "x" * 1000
print("Epoch: [0][1/12]\\tTime  0.100 ( 0.1)\\tLoss 1.0 (1.0)", flush=True)
for _ in range(20000):
    print(line)
"""


def script(folder: Path, text: str) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "script.py"
    path.write_text(text)
    return ["--", sys.executable, "-I", "-S", str(path)]


def test_signals_at_random_moments(tmp_path: Path, start_controller: Callable[..., BaseProcess]) -> None:
    """One sweep after the other, each cut short again and again and gone on with."""
    store, chance = tmp_path / "s", random.Random(5)
    asked = ["--repeat", "5", *script(tmp_path, LINES)]
    begin = time.monotonic()
    undisturbed = start_controller(store, *asked)
    undisturbed.join(60)
    whole_s = time.monotonic() - begin
    assert undisturbed.exitcode == 0
    kept = finished(store)
    assert len(kept) == 5
    codes = []
    for _ in range(NUM_REPETITIONS):
        controller = start_controller(store, *asked)
        time.sleep(chance.uniform(0.0, whole_s))
        number = chance.choice((signal.SIGINT, signal.SIGTERM))
        if controller.is_alive() and controller.pid is not None:
            os.kill(controller.pid, number)
        controller.join(30)
        codes.append(controller.exitcode)
        assert controller.exitcode in (0, 128 + number, -number), "-number: before main has taken the signal over"
        wait_until(lambda: not living(store), what="no process of the run is left")
        now = finished(store)
        assert now.items() >= kept.items(), "a finished run was lost or changed"
        kept = now
    assert any(codes), "none was cut short: the test tests nothing"
    opened = open_store(store)
    opened.sync()
    rows = {row.id: row for row in opened.rows()}
    assert rows.keys() == {folder.name for folder in folders(store)}
    good = [row.id for row in rows.values() if row.outcome == "ok"]
    assert len(good) > 5
    for run_id in good:
        steps = [record for record in read_records(store / run_id / "log.jsonl") if record["kind"] == "step"]
        assert len(steps) == 12, "an ok without all of its records"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(argv, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs root and a kernel that mounts a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_loses_nothing_that_was_finished(
    tmp_path: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = small_disk / "s"
    assert main(["run", "--store", str(store), *script(tmp_path / "a", LINES)]) == 0
    before = finished(store)
    code = main(["run", "--store", str(store), "--retries", "0", *script(tmp_path / "b", FLOOD)])
    assert code in (1, 2)
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert "space" in told
    assert living(store) == []
    assert finished(store).items() >= before.items()
    (cut,) = (folder for folder in folders(store) if folder.name not in before)
    (cut / "output.log").write_bytes(b"")  # somebody makes room
    assert main(["show", "--json", "--store", str(store)]) == 0
    outcomes = {row.id: row.outcome for row in open_store(store).rows()}
    assert [outcomes[run_id] for run_id in before] == ["ok"]
    assert outcomes[cut.name] in ("failed", "killed")


def test_a_locked_store_keeps_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody holds the index for longer than we wait: the run is made all the same, and the next look knows it."""
    for module in (database, index_file):
        monkeypatch.setattr(module, "BUSY_S", 1)
    store = tmp_path / "s"
    release = threading.Event()

    def hold() -> None:
        wait_until(lambda: list(store.glob("*/output.log")), what="a run has started")
        connection = sqlite3.connect(store / index.INDEX_FILE, isolation_level=None)
        connection.execute("BEGIN EXCLUSIVE")
        release.wait(30)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    code = main(["run", "--store", str(store), *script(tmp_path, LINES)])
    told = capsys.readouterr().err
    release.set()
    thread.join()
    assert (code, "locked" in told) == (0, True)
    (folder,) = folders(store)
    ending = read_json(folder / "exit.json")
    assert ending is not None
    assert ending["outcome"] == "ok"
    assert main(["show", "--json", "--store", str(store)]) == 0
    assert [(row.id, row.outcome) for row in open_store(store).rows()] == [(folder.name, "ok")]
