"""Silence of all ranks, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainmark.launch.endings import decide
from trainmark.launch.hang import Silent, describe, find_culprits
from trainmark.launch.worker_source import WorkerSource
from trainmark.messages.message import Message
from trainmark.messages.ranks import rank_ended
from trainmark.runfolder.document import RunDocument
from trainmark.runfolder.files import Json, rank_file
from trainmark.runfolder.records import Outcome
from trainmark.silence_limit import SilenceLimit, dump_after_s


def write(folder: Path, rank: int, *lines: Json) -> None:
    with (folder / rank_file(rank)).open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def steps(first: int, num: int, seconds: float = 2.0) -> list[Json]:
    return [{"kind": "step", "step": n, "seconds": seconds, "samples": 4} for n in range(first, first + num)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("trainmark.launch.worker_source.time.monotonic", lambda: now[0])
    return now


def test_the_limit_of_silence() -> None:
    assert SilenceLimit().after([0.1] * 5) == 20
    assert SilenceLimit().after([3.0] * 5) == 60
    limit = SilenceLimit.of(RunDocument.from_json({"cell": {}, "measure": {"hang_least_s": 3, "hang_factor": 5}}))
    assert (limit.least_s, limit.factor, limit.setup_s) == (3, 5, 900)
    assert limit.after([9.0] * 4) == 900, "four steps tell no usual one"
    assert limit.after([1.0, 1.0, 2.0, 2.0, 90.0]) == 10
    assert dump_after_s(20) < 20
    assert SilenceLimit.of(None) == SilenceLimit()


def test_any_rank_is_a_sign_of_life_and_ranks_may_come_late(tmp_path: Path, clock: list[float]) -> None:
    source = WorkerSource(tmp_path)
    assert source.quiet_s() == (0.0, 900.0)
    write(tmp_path, 0, {"kind": "run_start", "pid": 1}, *steps(1, 6))
    assert [record["kind"] for record in source.read_new()] == ["run_start"] + ["step"] * 6
    assert source.quiet_s() == (0.0, 40.0), "20 usual steps"
    clock[0] += 30
    write(tmp_path, 1, *steps(1, 6))
    assert source.read_new() == [], "only rank 0's steps are counted"
    assert source.quiet_s() == (0.0, 40.0)
    clock[0] += 30
    write(tmp_path, 1, {"kind": "telemetry"})
    source.read_new()
    assert source.quiet_s() == (30.0, 40.0), "telemetry has a thread of its own"


def test_a_checkpoint_of_one_rank_keeps_the_others_waiting(tmp_path: Path, clock: list[float]) -> None:
    source = WorkerSource(tmp_path)
    write(tmp_path, 0, *steps(1, 6))
    write(tmp_path, 1, *steps(1, 6), {"kind": "phase", "phase": "checkpoint", "edge": "begin"})
    clock[0] += 2
    source.read_new()
    assert source.quiet_s() == (0.0, 900.0)
    write(tmp_path, 1, {"kind": "phase", "phase": "checkpoint", "edge": "end", "seconds": 1.0})
    clock[0] += 2
    source.read_new()
    assert source.quiet_s() == (0.0, 40.0)


def test_an_evaluation_goes_on_as_long_as_it_gives_signs(tmp_path: Path, clock: list[float]) -> None:
    source = WorkerSource(tmp_path)
    phase = {"kind": "phase", "phase": "eval", "step": 6}
    write(tmp_path, 0, *steps(1, 6), {**phase, "edge": "begin"})
    source.read_new()
    for _ in range(3):
        clock[0] += 800
        assert source.quiet_s() == (800.0, 900.0)
        write(tmp_path, 0, {**phase, "edge": "progress"})
        source.read_new()
        assert source.quiet_s() == (0.0, 900.0), "still the limit of an evaluation, not that of a step"
    write(tmp_path, 0, {**phase, "edge": "end", "seconds": 2400.0})
    source.read_new()
    assert source.quiet_s() == (0.0, 40.0)


def silent(rank: int, *, pid: int | None = None, host: str = "here", step: int | None = 40) -> Silent:
    return Silent(rank=rank, pid=pid, host=host, last_step=step)


def say(ranks: list[Silent], culprits: dict[int, Message], states: dict[int, str] | None = None) -> str:
    return ", ".join(cause.english for cause in describe(ranks, culprits, states or {}))


def test_who_is_to_blame() -> None:
    pair = [silent(0, pid=10), silent(1, pid=11)]
    culprits = find_culprits(pair, {10: "sleeping", 11: "stopped"}, host="here")
    assert say(pair, culprits) == "rank 1 (pid 11 on here) is stopped; the others wait for it"
    assert find_culprits(pair, {10: "running"}, host="here") == {1: rank_ended(who=pair[1].name)}
    assert find_culprits(pair, {}, host="elsewhere") == {}, "nothing is known of processes of another machine"
    late = [silent(0, pid=10), silent(1, pid=11, host="there", step=38)]
    culprits = find_culprits(late, {10: "sleeping"}, host="here")
    assert say(late, culprits) == (
        "rank 1 (pid 11 on there) stopped after step 38, while others reached step 40; the others wait for it"
    )
    assert say(pair, {}, {10: "sleeping"}) == "no rank is behind the others"
    assert say(pair, {}, {12: "stopped"}) == "process 12 of the run is stopped"
    assert say(pair[:1], {}) == ""


def test_a_training_outlives_a_file_server_that_is_away_for_a_minute() -> None:
    steps = [0.02] * 50
    assert (
        SilenceLimit.of(RunDocument.from_json({"cell": {"epochs": None}, "measure": {"hang_least_s": None}})).after(
            steps
        )
        == 20.0
    )
    assert (
        SilenceLimit.of(RunDocument.from_json({"cell": {"epochs": 90}, "measure": {"hang_least_s": None}})).after(steps)
        == 300.0
    )
    assert (
        SilenceLimit.of(RunDocument.from_json({"cell": {"epochs": 90}, "measure": {"hang_least_s": 5}})).after(steps)
        == 5.0
    )


def test_a_rank_that_failed_is_the_cause_of_the_silence_of_the_others(tmp_path: Path, clock: list[float]) -> None:
    """It has recorded its end, but its process does not exit; rank 0 fails only when it is ended."""
    source = WorkerSource(tmp_path)
    write(tmp_path, 0, *steps(1, 6))
    write(tmp_path, 1, *steps(1, 5), {"kind": "run_end", "outcome": "oom", "reason": "no memory", "unix_s": 5.0})
    clock[0] += 2
    source.read_new()
    clock[0] += 50
    reason = source.explain_silence(50.0)
    write(tmp_path, 0, {"kind": "run_end", "outcome": "failed", "reason": "connection lost", "unix_s": 60.0})
    run_ends = source.close(-9)
    ending = decide(run_ends=run_ends, returncode=-9, ended_by=(Outcome.HANG, reason))
    assert (ending.outcome, ending.reason.english) == (Outcome.OUT_OF_MEMORY, "rank 1: no memory")
