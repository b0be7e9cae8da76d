from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainmark.launch.job import Job
from trainmark.launch.preflight import build_commands, judge, num_expected, read_answers
from trainmark.runfolder.records import PREFLIGHT_SIGN
from trainmark.spec.cluster import Cluster, Host

CLUSTER = Cluster(hosts=(Host(name="a", address="10.0.0.1"), Host(name="b", address="10.0.0.2")))
JOB = Job(
    run_id="p1", folder=Path("/s/p1"), python="/py", num_nodes=2, processes_per_node=8, num_cores=0, device="cuda",
    cluster=CLUSTER,
)  # fmt: skip
GOOD: dict[str, Any] = {
    "host": "x", "python": "3.11.7", "trainmark": "1", "code": "c0de", "framework": "2.13.0", "num_gpus": 8,
    "sees_store": True, "missing_data": [], "free_bytes": 1 << 40, "shm_bytes": 1 << 33, "open_files": 65536,
    "unreachable": [],
}  # fmt: skip


def find(*answers: dict[str, Any], job: Job = JOB, said: dict[str, str] | None = None) -> list[tuple[str, str, bool]]:
    numbered = [{**GOOD, "rank": rank, **answer} for rank, answer in enumerate(answers)]
    findings = judge(numbered, job=job, num_answers=2, own_code="c0de", said=said or {})
    return [(finding.where, finding.what, finding.is_fatal) for finding in findings]


def test_two_good_machines() -> None:
    assert find({"clock_offsets_s": {"1": 0.2}}, {}) == []


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ({"sees_store": False}, "does not see the store"),
        ({"missing_data": ["/data/imagenet"]}, "does not see /data/imagenet"),
        ({"num_gpus": 4}, "has 4 GPUs, 8 needed"),
        ({"framework": None}, "the framework is not installed"),
        ({"free_bytes": 5 << 20}, "only 5 MB free for records"),
        ({"unreachable": [0]}, "cannot reach rank 0"),
        ({"error": "10.0.0.1:15000: No route to host"}, "cannot reach the master at 10.0.0.1:15000: No route to host"),
    ],
)
def test_what_no_run_would_survive(answer: dict[str, Any], what: str) -> None:
    assert ("b (rank 1)", what, True) in find({}, answer)


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ({"shm_bytes": 64 << 20}, "only 64 MB of /dev/shm"),
        ({"open_files": 256}, "at most 256 open files"),
    ],
)
def test_what_is_worth_a_note(answer: dict[str, Any], what: str) -> None:
    assert find({}, answer) == [("b (rank 1)", what, False)]


def test_clocks_versions_and_code() -> None:
    assert find({"clock_offsets_s": {"1": -3.04}}, {}) == [
        ("b (rank 1)", "its clock differs from the master's by -3.0 s", False)
    ]
    (version,) = find({}, {"framework": "2.12.0"})
    assert version[1] == "framework 2.12.0, others 2.13.0"
    (code,) = find({}, {"code": "0ther"})
    assert "different code than here (0ther, c0de)" in code[1]


def test_a_silent_machine_is_named_with_what_its_shell_said() -> None:
    found = find({}, said={"b": "warning\nssh: connect to host b port 22: No route to host\n"})
    assert found == [("b (rank 1)", "no answer: ssh: connect to host b port 22: No route to host", True)]


def test_answers_are_found_behind_any_tag() -> None:
    line = json.dumps({"rank": 1})
    sign = PREFLIGHT_SIGN
    output = f"noise\n[1,1]<stdout>:{sign}{line}\n1: {sign}{line}\n{sign}not json\n{sign}[1]\n{sign}" + '{"rank":"x"}'
    assert read_answers(output) == [{"rank": 1}, {"rank": 1}]


def test_one_process_a_machine_by_the_remote_shell_and_all_ranks_by_mpirun() -> None:
    commands = build_commands(JOB, "torchrun", {"a": 1})
    assert [command.argv[0] for command in commands] == ["ssh", "ssh"]
    assert (commands[1].environment["RANK"], commands[1].environment["WORLD_SIZE"]) == ("1", "2")
    assert num_expected(JOB, "torchrun") == 2
    (by_mpi,) = build_commands(JOB, "mpi", {"a": 1})
    assert by_mpi.argv[-3:] == ("-m", "trainmark.worker.preflight", '{"a":1}')
    assert num_expected(JOB, "mpi") == 16
    (by_slurm,) = build_commands(replace(JOB, is_allocated=True), "slurm", {"a": 1})
    assert "TRAINMARK_LEASE" not in by_slurm.environment, "nobody writes one for it"


@pytest.mark.serial
def test_two_real_processes_meet(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    request = {"folder": str(tmp_path), "token": "token", "wait_s": 20, "data": [str(tmp_path), "/no/where"]}
    request |= {"package": "numpy", "device": "cpu"}
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    argv = [sys.executable, "-m", "trainmark.worker.preflight", json.dumps(request)]
    both = [
        subprocess.Popen(argv, env={**common, "RANK": rank}, stdout=subprocess.PIPE, text=True) for rank in ("1", "0")
    ]
    second, first = (read_answers(process.communicate(timeout=60)[0])[0] for process in both)
    assert first["heard"] == [1]
    assert abs(first["clock_offsets_s"]["1"]) < 0.5
    assert (first["unreachable"], second["unreachable"]) == ([], [])
    assert (second["sees_store"], second["missing_data"]) == (True, ["/no/where"])
    job = replace(JOB, device="cpu")
    findings = judge([first, second], job=job, num_answers=2, own_code=first["code"], said={})
    assert [finding.what for finding in findings if finding.is_fatal] == ["does not see /no/where"] * 2
