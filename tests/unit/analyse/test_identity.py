"""What makes two runs the same: work, code and machine, each as a hash and as named facts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from making import make_cell, make_run
from trainmark.analyse.identity import differences, framework_version, identity_of, rows_of_commit
from trainmark.analyse.origin import pooling_key
from trainmark.analyse.warnings import check_rows
from trainmark.errors import InputError
from trainmark.messages.message import Message
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow

ENVIRONMENT: dict[str, Any] = {
    "trainmark": "0.1.0", "framework": "torch 2.15.0", "python": "3.12.3", "cpu": "AMD EPYC", "num_cores": 16,
    "memory_bytes": 128 << 30, "hostname": "node0", "system": "Linux-6.18", "packages": {"numpy": "2.4.6"},
    "git": {"commit": "a1" * 20, "branch": "main", "diff_sha256": None}, "variables": {}, "gpus": [],
    "container": None,
}  # fmt: skip


def make_row(root: Path, *, facts: dict[str, Any] | None = None, cell: Any = None, **environment: Any) -> RunRow:
    folder = make_run(root, f"r{len(list(root.iterdir()))}", cell=cell)
    (folder / "env.json").write_text(json.dumps({**ENVIRONMENT, **environment}))
    row = read_run(folder)
    assert row is not None
    return dataclasses.replace(row, **(facts or {}))


def differing(one: RunRow, other: RunRow) -> list[tuple[str, str]]:
    return [(found.axis, found.name) for found in differences(identity_of(one), identity_of(other))]


def test_equal_runs_have_equal_identities(tmp_path: Path) -> None:
    one, other = make_row(tmp_path), make_row(tmp_path, cell=make_cell(repeat=2))
    assert identity_of(one) == identity_of(other)
    assert identity_of(one).is_known
    assert differing(one, other) == []
    assert pooling_key(one) == pooling_key(other)


@pytest.mark.parametrize(
    ("changes", "axis", "name"),
    [
        ({"cell": make_cell(batch_size_per_device=8)}, "work", "batch size per device"),
        ({"facts": {"workload_version": 2}}, "work", "version"),
        ({"facts": {"unit": "clips"}}, "work", "unit"),
        ({"git": {"commit": "b2" * 20, "branch": "main"}}, "code", "commit"),
        ({"git": {**ENVIRONMENT["git"], "diff_sha256": "c3"}}, "code", "changes"),
        ({"framework": "torch 2.16.0"}, "code", "framework"),
        ({"packages": {"numpy": "2.5.0"}}, "code", "numpy"),
        ({"driver": "580.1"}, "code", "driver"),
        ({"image": {"name": "team/train:7", "digest": None}}, "code", "image"),
        ({"variables": {"OMP_NUM_THREADS": "1"}}, "code", "OMP_NUM_THREADS"),
        ({"cpu": "Xeon"}, "machine", "cpu"),
        ({"num_cores": 8}, "machine", "cores"),
        ({"memory_bytes": 64 << 30}, "machine", "memory"),
        ({"gpus": [{"name": "H200", "uuid": "GPU-1"}]}, "machine", "gpus"),
    ],
)
def test_what_is_part_of_each_hash(changes: dict[str, Any], axis: str, name: str, tmp_path: Path) -> None:
    one, other = make_row(tmp_path), make_row(tmp_path, **changes)
    assert (axis, name) in differing(one, other)
    equal = {part: getattr(identity_of(one), part) == getattr(identity_of(other), part) for part in
             ("work", "code", "machine")}  # fmt: skip
    assert equal == {part: part != axis for part in equal}
    assert pooling_key(one) != pooling_key(other)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"git": {**ENVIRONMENT["git"], "branch": "renamed"}}, ("code", "branch")),
        ({"system": "Linux-6.19"}, ("machine", "system")),
        ({"packages": {"numpy": "2.4.6", "psutil": "8", "torch": "2.15.0"}}, None),
        ({"variables": {"CUDA_VISIBLE_DEVICES": "1"}}, None),
        ({"memory_bytes": (128 << 30) - (3 << 20)}, None),
    ],
)
def test_what_is_not(changes: dict[str, Any], name: tuple[str, str] | None, tmp_path: Path) -> None:
    one, other = make_row(tmp_path), make_row(tmp_path, **changes)
    assert differing(one, other) == ([name] if name else [])
    assert not any(found.is_identifying for found in differences(identity_of(one), identity_of(other)))
    assert pooling_key(one) == pooling_key(other)


def test_the_order_of_gpus_does_not_matter_and_one_without_an_id_is_unknown(tmp_path: Path) -> None:
    gpus = [{"name": "H200", "uuid": "GPU-1"}, {"name": "H200", "uuid": "GPU-2"}]
    one, other = make_row(tmp_path, gpus=gpus), make_row(tmp_path, gpus=gpus[::-1])
    assert identity_of(one).machine == identity_of(other).machine
    assert "gpus" not in identity_of(make_row(tmp_path, gpus=[*gpus, {"name": "H200"}])).facts["machine"]


def test_two_hosts_are_two_lines_unless_their_name_means_nothing(tmp_path: Path) -> None:
    gpus = [{"name": "H200", "uuid": "GPU-1"}]
    for facts, are_pooled in (({}, False), ({"gpus": gpus}, True), ({"container": "docker"}, True)):
        one, other = make_row(tmp_path, **facts), make_row(tmp_path, hostname="node1", **facts)
        assert identity_of(one).machine == identity_of(other).machine
        assert (pooling_key(one) == pooling_key(other)) is are_pooled


def test_an_imported_log_has_neither_code_nor_machine(tmp_path: Path) -> None:
    """Logs of one folder may be averaged, logs of two folders never."""
    facts = {"dialect": "dlperf", "workload": None, "model": "bert", "environment": {"device_name": "V100"}}
    rows = [make_row(tmp_path, facts={**facts, "source": source}) for source in ("a/1.log", "a/2.log", "b/1.log")]
    assert [(identity_of(row).code, identity_of(row).machine) for row in rows] == [(None, None)] * 3
    assert len({identity_of(row).work for row in rows}) == 1
    assert pooling_key(rows[0]) == pooling_key(rows[1]) != pooling_key(rows[2])


def test_an_average_of_unknown_runs_is_reported(tmp_path: Path) -> None:
    """In both languages, with the folder; a log that is alone and runs whose code is known have no such warning."""
    facts = {"dialect": "dlperf", "workload": None, "model": "bert", "environment": {"device_name": "V100"}}
    logs = [make_row(tmp_path, facts={**facts, "source": source}) for source in ("a/1.log", "a/2.log", "b/1.log")]
    command = {"source": "command", "workload": None, "model": "x", "sweep": "s1"}
    hidden = [make_row(tmp_path, git=None, facts=command) for _ in range(2)]
    rows = [*logs, *hidden, make_row(tmp_path), make_row(tmp_path)]
    said = [
        [warning for warning in found if warning["code"] == "pooled-unknown"] for found in check_rows(rows).values()
    ]
    assert [len(found) for found in said] == [1, 1, 0, 1, 1, 0, 0]
    assert said[0][0]["message"].startswith("averaged over 2 runs of the folder a that do not record their code")
    assert said[3][0]["message"].startswith("averaged over 2 runs of the sweep s1 that")
    assert "文件夹 a 中" in Message.from_json(said[0][0]).chinese


def test_a_log_that_tells_too_little_is_like_no_other(tmp_path: Path) -> None:
    facts = {"dialect": "dlperf", "workload": None, "model": None, "source": "a/1.log"}
    rows = [make_row(tmp_path, facts={**facts, "log": {"sha256": sha256}}) for sha256 in ("ab", "cd")]
    assert pooling_key(rows[0]) != pooling_key(rows[1])


def test_an_older_command_outside_a_repository_has_unknown_code(tmp_path: Path) -> None:
    """Up to 0.1 the commit was that of the working folder: none, if that was the folder above the repository."""
    facts = {"source": "command", "workload": None, "model": "python repo/train.py"}
    rows = [make_row(tmp_path, git=None, facts={**facts, "sweep": sweep}) for sweep in ("s1", "s1", "s2")]
    assert identity_of(rows[0]).code is None
    assert pooling_key(rows[0]) == pooling_key(rows[1]) != pooling_key(rows[2])


def test_two_checkouts_run_the_same_command(tmp_path: Path) -> None:
    facts = {"source": "command", "workload": None}
    script = {"path": "train.py", "sha256": "ab", "command": "python train.py"}
    one = make_row(tmp_path, facts={**facts, "model": "python /home/a/train.py"}, script=script)
    other = make_row(tmp_path, facts={**facts, "model": "python train.py"}, script=script, trainmark="0.2.0")
    assert identity_of(one).work == identity_of(other).work
    assert identity_of(one).code == identity_of(other).code  # trainmark only measures it
    assert differing(one, other) == [("code", "trainmark")]
    assert not any(found.is_identifying for found in differences(identity_of(one), identity_of(other)))
    edited = make_row(tmp_path, facts={**facts, "model": "x"}, script={**script, "modules_sha256": "cd"})
    assert identity_of(edited).code != identity_of(one).code


def test_the_version_of_the_framework_of_a_command_is_that_of_its_package(tmp_path: Path) -> None:
    facts = {"source": "command", "workload": None}
    both = {"torch": "2.15.0", "jax": "0.9"}
    for name, packages, version in (
        (None, {"torch": "2.15.0", "numpy": "2"}, "torch 2.15.0"),
        ("paddle", {"paddlepaddle-gpu": "3.1"}, "paddle 3.1"),
        ("jax", both, "jax 0.9"),
        (None, both, None),  # which of the two it used is not known
        ("torch", {}, None),
    ):
        row = make_row(tmp_path, framework=None, packages=packages, facts={**facts, "framework": name})
        assert framework_version(row) == version
    assert framework_version(make_row(tmp_path)) == "torch 2.15.0"


def test_damaged_facts_do_not_matter(tmp_path: Path) -> None:
    row = make_row(tmp_path, git=[1], packages="x", gpus={"a": 1}, variables=3, memory_bytes="much", image="x")
    assert identity_of(row).is_known


def test_runs_of_a_commit(tmp_path: Path) -> None:
    old, new = (make_row(tmp_path, git={"commit": digits * 20, "branch": name}) for digits, name in
                (("a1", "main"), ("a2", "faster")))  # fmt: skip
    rows = [old, new]
    assert rows_of_commit(rows, "a1a1") == [old]
    assert rows_of_commit(rows, "A2" * 20) == [new]
    assert rows_of_commit(rows, "faster") == [new]
    with pytest.raises(InputError, match="no run of commit or branch 'a1'"):
        rows_of_commit(rows, "a1")
    with pytest.raises(InputError, match="no run of commit or branch 'ffff'"):
        rows_of_commit(rows, "ffff")
    third = make_row(tmp_path, git={"commit": "a1a1" + "b" * 36})
    with pytest.raises(InputError, match="beginning of 2 commits"):
        rows_of_commit([old, third], "a1a1")
