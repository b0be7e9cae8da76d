"""Two processes by every launcher, for real: the same losses and the same table whoever started them."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from clusters import Namespaces, need, network_namespaces, slurm

from making import heed_interrupts
from trainmark.launch.processes import find
from trainmark.runfolder.files import read_json
from trainmark.runfolder.records import read_records
from waiting import wait_until

WORKLOAD = ["resnet50", "--size", "small", "--batch-size", "2", "--device", "cpu", "--max-steps", "4"]
MARKED = """
import os, time
from trainmark import mark
for _ in range(int(os.environ.get("STEPS", "20"))):
    time.sleep(0.02)
    mark.step(samples=4)
os.write(1, f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\\n".encode())  # whole, beside the other
"""


@pytest.fixture(scope="module")
def namespaces() -> Iterator[Namespaces]:
    with network_namespaces() as found:
        yield found


@pytest.fixture(scope="module")
def slurm_variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with slurm(tmp_path_factory.mktemp("slurm")) as variables:
        yield variables


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cluster") / "cluster.toml"
    path.write_text('environment = { OMP_NUM_THREADS = "1", OMP_WAIT_POLICY = "passive" }\n')
    return path


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    path = tmp_path / "script.py"
    path.write_text(MARKED)
    return ["--", sys.executable, str(path)]


def trainmark(*argv: str, variables: dict[str, str] | None = None, before: tuple[str, ...] = ()) -> Any:
    command = [*before, sys.executable, "-m", "trainmark.cli.main", *argv]
    environment = {**os.environ, **(variables or {}), "NO_COLOR": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)


def run(store: Path, *argv: str, variables: dict[str, str] | None = None, before: tuple[str, ...] = ()) -> Any:
    done = trainmark("run", "--store", str(store), "--json", *argv, variables=variables, before=before)
    assert done.returncode == 0, done.stderr + "".join(path.read_text() for path in store.glob("*/output.log"))
    (result,) = json.loads(done.stdout)["results"]
    assert find(result["id"]) == []
    return result


def losses(store: Path, run_id: str) -> list[float]:
    found = read_records(store / run_id / "rank0.jsonl")
    return [record["loss"] for record in found if record.get("loss") is not None]


@pytest.fixture(scope="module")
def by_torchrun(tmp_path_factory: pytest.TempPathFactory, threads: Path) -> tuple[dict[str, Any], list[float]]:
    """What the others are compared with: two processes on this machine, by torchrun. Once for all test processes."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    store = shared / "by_torchrun"
    with (shared / "by_torchrun.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = shared / "by_torchrun.json"
        if not kept.exists():
            result = run(store, *WORKLOAD, "--devices", "2", "--cluster", str(threads))
            kept.write_text(json.dumps(result))
    result = json.loads(kept.read_text())
    return result, losses(store, result["id"])


def check(store: Path, result: dict[str, Any], expected: tuple[dict[str, Any], list[float]]) -> None:
    assert (result["outcome"], result["devices"], result["records"]) == ("ok", 2, 4)
    assert result["median"] > 0
    assert result.keys() == expected[0].keys()
    assert losses(store, result["id"]) == pytest.approx(expected[1], rel=1e-5)


@pytest.mark.serial
def test_torchrun_in_two_network_namespaces_over_a_slow_cable(
    tmp_path: Path, namespaces: Namespaces, by_torchrun: tuple[dict[str, Any], list[float]]
) -> None:
    """A scaling study over one and two machines: the cause of the loss is the cable, and its speed is told."""
    flags = ("--nodes", "1,2", "--cluster", str(namespaces.cluster(tmp_path)), "--store", str(tmp_path / "s"))
    with namespaces.limited_to("400mbit"):
        done = trainmark("run", *WORKLOAD, *flags, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    one, two = sorted(document["results"], key=lambda result: result["nodes"])
    assert (one["nodes"], one["devices"], two["nodes"]) == (1, 1, 2)
    check(tmp_path / "s", two, by_torchrun)
    (study,) = (study for study in document["scaling"] if study["mode"] == "weak")
    slow = study["lines"][1]
    assert slow["efficiency"]["value"] < 0.7
    assert slow["cause"] == "communication", slow["why"]
    # A cable of 400 Mbit/s carries 0.05 GB/s; two machines exchange a buffer by sending it once in each direction.
    assert 0.02 < two["communication"]["allreduce_gb_per_s"] < 0.053
    shown = trainmark("show", "--store", str(tmp_path / "s")).stdout
    assert "communication" in shown
    assert "GB/s" in shown


def test_mpirun(tmp_path: Path, threads: Path, by_torchrun: tuple[dict[str, Any], list[float]]) -> None:
    need("mpirun")
    how = ("--devices", "2", "--launcher", "mpi", "--cluster", str(threads))
    check(tmp_path / "s", run(tmp_path / "s", *WORKLOAD, *how), by_torchrun)


def test_srun_inside_an_allocation(
    tmp_path: Path, threads: Path, slurm_variables: dict[str, str], by_torchrun: tuple[dict[str, Any], list[float]]
) -> None:
    how = ("--nodes", "2", "--cluster", str(threads))
    before = ("salloc", "--quiet", "--nodes=2", "--ntasks-per-node=1")
    result = run(tmp_path / "s", *WORKLOAD, *how, variables=slurm_variables, before=before)
    command = read_json(tmp_path / "s" / result["id"] / "command.json")
    assert command is not None
    assert (command["launcher"], command["argv"][0]) == ("slurm", "srun")
    check(tmp_path / "s", result, by_torchrun)


def test_sbatch_outside_of_one(
    tmp_path: Path, threads: Path, slurm_variables: dict[str, str], by_torchrun: tuple[dict[str, Any], list[float]]
) -> None:
    how = ("--nodes", "2", "--launcher", "slurm", "--cluster", str(threads))
    result = run(tmp_path / "s", *WORKLOAD, *how, variables=slurm_variables)
    check(tmp_path / "s", result, by_torchrun)
    table = trainmark("show", "--store", str(tmp_path / "s"))
    assert "2 × 1 CPU" in table.stdout


def test_a_script_in_two_namespaces_by_elastic_rendezvous(
    tmp_path: Path, namespaces: Namespaces, script: list[str]
) -> None:
    cluster = namespaces.cluster(tmp_path, rendezvous="elastic")
    result = run(tmp_path / "s", "--nodes", "2", "--cluster", str(cluster), *script)
    assert (result["outcome"], result["devices"], result["records"]) == ("ok", 2, 19)
    output = (tmp_path / "s" / result["id"] / "output.log").read_text()
    assert {"rank 0 of 2", "rank 1 of 2"} <= set(output.splitlines())


def test_ctrl_c_cancels_a_batch_job(tmp_path: Path, slurm_variables: dict[str, str], script: list[str]) -> None:
    variables = {**os.environ, **slurm_variables, "STEPS": "5000"}
    argv = ["run", "--store", str(tmp_path / "s"), "--nodes", "2", "--launcher", "slurm", *script]
    command = [sys.executable, "-m", "trainmark.cli.main", *argv]
    controller = subprocess.Popen(command, env=variables, preexec_fn=heed_interrupts)
    folder = wait_for_steps(tmp_path / "s")
    controller.send_signal(signal.SIGINT)
    assert controller.wait(timeout=60) == 130
    ending = read_json(folder / "exit.json")
    assert ending is not None
    assert ending["outcome"] == "killed"
    queue = subprocess.run(["squeue", "--noheader"], env=variables, capture_output=True, text=True, check=True)
    assert folder.name not in queue.stdout
    assert not psutil.wait_procs(find(folder.name), timeout=10)[1]


def wait_for_steps(store: Path) -> Path:
    found = wait_until(
        lambda: [path for path in store.glob("*/rank*.jsonl") if path.stat().st_size > 1000], what="steps are recorded"
    )
    return found[0].parent


def test_a_missing_machine_is_told_before_anything_starts(
    tmp_path: Path, namespaces: Namespaces, script: list[str]
) -> None:
    cluster = namespaces.cluster(tmp_path)
    cluster.write_text(cluster.read_text().replace(f"{namespaces.names[1]}=", "nowhere="))
    done = trainmark("run", "--store", str(tmp_path / "s"), "--nodes", "2", "--cluster", str(cluster), *script)
    assert done.returncode == 2
    assert "nowhere (rank 1)" in done.stderr
    assert "no answer" in done.stderr
    assert list((tmp_path / "s").iterdir()) == [], "nothing was started and nothing is left"


def test_a_machine_without_a_cable_is_told(tmp_path: Path, namespaces: Namespaces, script: list[str]) -> None:
    namespaces.set_link("down")
    try:
        flags = ("--nodes", "2", "--cluster", str(namespaces.cluster(tmp_path)))
        done = trainmark("run", "--store", str(tmp_path / "s"), *flags, *script)
    finally:
        namespaces.set_link("up")
    assert done.returncode == 2
    assert f"{namespaces.names[1]} (rank 1)" in done.stderr
    assert "cannot reach the master" in done.stderr


def test_a_node_lost_in_the_middle_ends_the_run_in_seconds(
    tmp_path: Path, namespaces: Namespaces, script: list[str]
) -> None:
    flags = ["--nodes", "2", "--cluster", str(namespaces.cluster(tmp_path)), "--store", str(tmp_path / "s")]
    environment = {**os.environ, "STEPS": "5000"}
    argv = [sys.executable, "-m", "trainmark.cli.main", "run", *flags, "--retries", "0", *script]
    controller = subprocess.Popen(argv, env=environment)
    folder = wait_for_steps(tmp_path / "s")
    pids = subprocess.run(["ip", "netns", "pids", namespaces.names[1]], capture_output=True, text=True, check=True)
    for pid in pids.stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    assert controller.wait(timeout=30) == 1
    ending = read_json(folder / "exit.json")
    assert ending is not None
    assert ending["outcome"] == "killed"
    assert find(folder.name) == []
