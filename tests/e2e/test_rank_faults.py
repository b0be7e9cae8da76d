"""One of two ranks fails or is killed, under the launchers of JAX and Paddle: outcome, named rank, time to the end."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from pathlib import Path

import pytest
from test_faults import MOST_S, PAIR, start, wait_for_steps

from trainmark.launch.processes import find
from trainmark.runfolder.files import Json, read_json
from trainmark.runfolder.records import read_records
from trainmark.store.folder import read_run

PLANTED = {"PYTHONPATH": str(Path(__file__).parent / "planted"), "SMALL_JAX": "1"}
SOON_S = 15
"""Before the silence limit of 20 s: the end is seen, not inferred from silence."""

pytestmark = [
    pytest.mark.serial,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores"),
]


def ending_of(folder: Path) -> Json:
    ending = read_json(folder / "exit.json")
    assert ending is not None
    return ending


def run_ends(folder: Path) -> list[Json]:
    records = [record for path in folder.glob("rank*.jsonl") for record in read_records(path)]
    return [record for record in records if record["kind"] == "run_end"]


def need(framework: str) -> None:
    if importlib.util.find_spec(framework) is None:  # not imported: tests after this one fork
        pytest.skip(f"{framework} is not installed")


@pytest.mark.parametrize("framework", ["paddle", "jax"])
def test_a_rank_killed_with_9_is_named(framework: str, tmp_path: Path) -> None:
    need(framework)
    process = start(tmp_path / "s", *PAIR, "--framework", framework, **PLANTED)
    try:
        folder, starts = wait_for_steps(tmp_path / "s", 2)
        begin = time.monotonic()
        os.kill(starts[1]["pid"], signal.SIGKILL)
        out, _ = process.communicate(timeout=MOST_S)
        took_s = time.monotonic() - begin
    finally:
        process.kill()
    ending = ending_of(folder)
    assert ending["outcome"] == "killed", out
    assert ending["reason"].startswith(f"rank 1 (pid {starts[1]['pid']} on {starts[1]['host']}) was killed by SIGKILL")
    assert process.returncode == 1
    assert took_s < SOON_S
    assert find(folder.name) == []


def test_a_rank_of_jax_that_fails_alone_ends_the_run_at_once(tmp_path: Path) -> None:
    """It must not wait for the others to leave the group: they wait for it in an exchange of gradients."""
    need("jax")
    process = start(tmp_path / "s", *PAIR, "--framework", "jax", **PLANTED, PLANTED_IN="1")
    try:
        out, _ = process.communicate(timeout=MOST_S)
    finally:
        process.kill()
    (folder,) = (path for path in (tmp_path / "s").iterdir() if (path / "exit.json").exists())
    ending = ending_of(folder)
    assert ending["outcome"] == "oom", out
    assert ending["reason"].startswith("rank 1: MemoryError: planted")
    assert ending["look_at"] == "rank1.jsonl"
    run = read_run(folder)
    assert run is not None
    assert len(run.seconds) >= 20
    ended_s = [record["unix_s"] for record in run_ends(folder)]
    assert ending["ended_unix_s"] - min(ended_s) < SOON_S
    assert "stack trace" not in (folder / "output.log").read_text(), "no process aborted"
    assert find(folder.name) == []
