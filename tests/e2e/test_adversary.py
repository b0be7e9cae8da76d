"""An adversary that damages stores and kills processes at random: nothing is lost, left behind or silently changed.

    TRAINMARK_DAMAGES=1000 TRAINMARK_KILLS=200 TRAINMARK_SEED=1 pytest tests/e2e/test_adversary.py

Every case has a seed of its own, which a failure names: TRAINMARK_SEED=<that> TRAINMARK_DAMAGES=1 repeats it alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import pytest
from controllers import finished, folders, living

from adversary import damage
from making import make_cell, make_run
from trainmark.cli.main import main
from trainmark.logs.importing import Task, import_file
from trainmark.logs.record import Facts
from trainmark.runfolder.ending import write_exit
from trainmark.runfolder.files import EXIT_FILE
from trainmark.runfolder.records import read_records
from waiting import wait_until

NUM_DAMAGES = int(os.environ.get("TRAINMARK_DAMAGES", "20"))
NUM_KILLS = int(os.environ.get("TRAINMARK_KILLS", "4"))
FIRST_SEED = int(os.environ.get("TRAINMARK_SEED", "0"))
SEALS = {"changed-after-end", "no-end-record"}
LOG_LINE = (
    "2021-05-11 00:00:{n:02d} [INFO]\t[TRAIN] epoch: 1, iter: {n}/100, loss: 1.5, lr: 0.01, "
    "batch_cost: 0.3{n}, reader_cost: 0.001, ips: 20.5 samples/sec | ETA 07:41:26\n"
)
SCRIPT = """
import subprocess, sys, time
hidden = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(100)", sys.argv[1]]
subprocess.Popen(hidden, env={}, start_new_session=True)
for i in range(12):
    print(f"Epoch: [0][{i}/12]\\tTime  0.100 ( 0.1)\\tLoss {1 / (i + 1):.4f} (1.0)", flush=True)
    time.sleep(0.01)
"""
pytestmark = pytest.mark.timeout(3600 if NUM_DAMAGES > 100 or NUM_KILLS > 20 else 600)


def show(store: Path, capsys: pytest.CaptureFixture[str], seed: str) -> dict[str, dict[str, Any]]:
    """Every verb ends in order; the results by id, empty if the store has none that can be read."""
    other = random.Random(seed).choice((["show"], ["report"], ["export", "--format", "csv"], ["plan", "quick"]))
    for words in (other, ["show", "--json"]):
        code = main([*words, "--store", str(store)])
        out, err = capsys.readouterr()
        assert code in (0, 2), (seed, words, err)
        assert "Traceback" not in err + out, (seed, words, err)
        assert "trainmark itself failed" not in err, (seed, words, err)
    return {result["id"]: result for result in json.loads(out)["results"]} if code == 0 else {}


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of each kind: own ones, one on two devices, one that was killed, a command, an imported log."""
    root = tmp_path_factory.mktemp("sound")
    chance, store = random.Random(3), root / "s"
    for number in range(3):
        seconds = [0.1 * (1 + chance.random() / 10) for _ in range(40)]
        folder = make_run(store, f"own{number}", cell=make_cell(repeat=number + 1), seconds=seconds)
        if number == 2:
            shutil.copy(folder / "rank0.jsonl", folder / "rank1.jsonl")
        write_exit(folder, json.loads((folder / EXIT_FILE).read_text()))
    make_run(store, "killed", outcome=None)
    (root / "train.log").write_text("".join(LOG_LINE.format(n=n) for n in range(10, 50)))
    given = Facts(devices=1, batch_size_per_device=8)
    import_file(Task(path=root / "train.log", store=store, given=given, pattern=None, targets={}))
    (root / "t.py").write_text(SCRIPT.replace("subprocess.Popen", "0 and subprocess.Popen"))
    assert main(["run", "--store", str(store), "--", sys.executable, "-I", "-S", str(root / "t.py"), "x"]) == 0
    assert main(["show", "--json", "--reindex", "--store", str(store)]) == 0
    return store


def numbers(result: dict[str, Any]) -> dict[str, Any]:
    """All that is said about what was measured. What depends on other runs may change with them."""
    beside = ("id", "warnings", "marks", "admitted", "pooled", "retry_of", "attempt", "sweep", "identity", "scaling")
    return {name: value for name, value in result.items() if name not in beside}


def test_no_damage_loses_or_changes_a_result_silently(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    before = show(sound, capsys, "sound")
    assert [result["outcome"] for result in before.values()].count("ok") == 5
    num_changed = 0
    for number in range(FIRST_SEED, FIRST_SEED + NUM_DAMAGES):
        chance, store = random.Random(number), tmp_path / f"s{number}"
        shutil.copytree(sound, store)
        if chance.random() < 0.5:
            (store / "index.sqlite").unlink()
        done = f"seed {number}: " + ", ".join(damage(store, chance) for _ in range(chance.choice((1, 1, 2, 3))))
        after = show(store, capsys, done)
        for run_id, old in before.items():
            new = after.get(run_id)
            if new is None:
                assert "run.json" in done, f"{done}: {run_id} is lost"
                continue
            is_told = new["outcome"] != "ok" or SEALS & {warning["code"] for warning in new["warnings"]}
            is_changed = numbers(new) != numbers(old)
            num_changed += is_changed
            assert not is_changed or is_told, f"{done}: {run_id} changed silently"
        shutil.rmtree(store)
    assert num_changed > NUM_DAMAGES / 10 or NUM_DAMAGES < 10


# -- kills -------------------------------------------------------------------------------------------------------------


def strike(controller: BaseProcess, store: Path, token: str, chance: random.Random) -> str:
    """A signal to the controller, or SIGKILL to any process of the run or beside it."""
    number = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    victim = controller.pid
    if chance.random() < 0.35 and victim is not None:
        with contextlib.suppress(psutil.Error):
            others = psutil.Process(victim).children(recursive=True) + hidden(token)
            if others:
                number, victim = signal.SIGKILL, chance.choice(others).pid
    with contextlib.suppress(ProcessLookupError):
        if victim is not None:
            os.kill(victim, number)
    return f"{number.name} to {'the controller' if victim == controller.pid else 'another process'}"


def hidden(token: str) -> list[psutil.Process]:
    """Processes with the word in their command line, whatever they did to their environment and session."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if token in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def test_no_kill_loses_a_run_or_leaves_a_process(
    tmp_path: Path, start_controller: Callable[..., BaseProcess], capfd: pytest.CaptureFixture[str]
) -> None:
    store, script = tmp_path / "s", tmp_path / "t.py"
    script.write_text(SCRIPT)
    undisturbed = start_controller(store, "--", sys.executable, "-I", "-S", str(script), "nobody")
    undisturbed.join(500)
    kept, codes = finished(store), []
    assert (undisturbed.exitcode, len(kept)) == (0, 1)
    for number in range(FIRST_SEED, FIRST_SEED + NUM_KILLS):
        chance, token = random.Random(number), f"adversary-{os.getpid()}-{number}"
        asked = ["--repeat", "3", "--", sys.executable, "-I", "-S", str(script), token]
        controller = start_controller(store, *asked)
        if chance.random() < 0.7:  # else while it starts
            wait_until(lambda: hidden(token) or not controller.is_alive(), what="a run has started")  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.4))
        done = f"seed {number}: {strike(controller, store, token, chance)}"
        controller.join(500)
        assert controller.exitcode is not None, f"{done}: still running"
        codes.append(controller.exitcode)
        wait_until(lambda: not living(store) and not hidden(token), what=f"{done}: no process is left")  # noqa: B023
        now = finished(store)
        assert kept.items() <= now.items(), f"{done}: a finished run was lost or changed"
        kept = now
        told = capfd.readouterr()
        assert "Traceback" not in told.out + told.err, (done, told.err)
    assert any(codes), "none was cut short: the test tests nothing"
    assert main(["show", "--json", "--store", str(store)]) == 0
    results = json.loads(capfd.readouterr().out)["results"]
    # A folder is made under a hidden name: of a controller that was killed at that moment it stays for an hour.
    assert {result["id"] for result in results} == {path.name for path in folders(store)}
    for result in results:
        if result["outcome"] == "ok":
            records = read_records(store / result["id"] / "log.jsonl")
            assert sum(record["kind"] == "step" for record in records) == 12, f"{result['id']}: ok without its records"
