"""Real runs through the real command line, on the CPU."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from controllers import folders

from making import heed_interrupts, make_images
from schema_checking import check_document
from trainmark.launch.processes import find
from trainmark.runfolder.records import read_records
from waiting import wait_until

SMALL = ["--device", "cpu", "--size", "small", "--batch-size", "2", "--max-seconds", "4", "--min-seconds", "1"]

OF_THE_MACHINE = ("foreign-gpu-process", "throttled", "clock-jump", "noisy-neighbour", "too-noisy")
"""Warnings that a busy machine may add to any run."""


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "trainmark.cli.main", *argv]


def trainmark(*argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(*argv), capture_output=True, text=True, check=False, timeout=400)
    assert not check or done.returncode == 0, done.stderr
    return done


def results(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    document = json.loads(done.stdout)
    assert document["schema"] == 2
    return document["results"]  # type: ignore[no-any-return]


def test_run_show_report(tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "s")]
    done = trainmark("run", "resnet50", *SMALL, *store, "--json")
    check_document("run", json.loads(done.stdout))
    (result,) = results(done)
    assert result["outcome"] == "ok"
    assert result["median"] > 0  # on a busy machine the throughput may be too noisy to be a number
    assert result["records"] >= 2
    assert result["peak_memory_bytes"] > 1 << 27
    (shown,) = results(trainmark("show", *store, "--json"))
    assert shown == result
    folder = tmp_path / "s" / result["id"]
    assert {"run.json", "command.json", "env.json", "rank0.jsonl", "output.log", "exit.json"} <= {
        p.name for p in folder.iterdir()
    }
    assert "images/s" in trainmark("report", *store).stdout
    environment = json.loads((folder / "env.json").read_text())
    assert environment["num_parameters"] == 25_557_032
    assert environment["flags"]["tf32_convolution"] is False


def test_two_processes_equal_one_with_the_double_batch(tmp_path: Path) -> None:
    """Through torchrun and gloo on real images, with BatchNorm's statistics fixed: with its own, a batch split in
    two is another function. The mean of the two ranks' losses is that of the whole batch, step by step."""
    root = make_images(tmp_path / "data", classes=2, per_class=16, splits=("train",))
    script = Path(__file__).with_name("fixed_norm_worker.py")
    cell = {
        "workload": "resnet50", "framework": "torch", "recipe": "reference", "precision": "fp32", "size": "small",
        "device": "cpu", "nodes": 1, "data": str(root), "epochs": None, "lr": None, "until_target": {}, "seed": 0,
        "repeat": 1,
    }  # fmt: skip
    losses = {}
    for processes, batch in ((1, 8), (2, 4)):
        out = tmp_path / f"losses{processes}"
        out.mkdir()
        spec = json.dumps({**cell, "devices_per_node": processes, "batch_size_per_device": batch})
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        environment = {**os.environ, "OMP_NUM_THREADS": str(3 - processes)}
        argv = [sys.executable, *launcher, str(script), spec, str(out)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, env=environment)
        assert done.returncode == 0, done.stderr
        losses[processes] = np.mean([json.loads(path.read_text()) for path in sorted(out.iterdir())], axis=0)
    assert len(losses[1]) == 6
    np.testing.assert_allclose(losses[2], losses[1], rtol=1e-4)
    assert losses[1][-1] != pytest.approx(losses[1][0], rel=1e-3)


class Listeners:
    """Addresses and ports on which processes of the runs of a store listen, looked at while they run."""

    def __init__(self, store: Path) -> None:
        self.found: set[tuple[str, int]] = set()
        self._store, self._is_over = store, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Listeners:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.2):
            processes = [process for path in self._store.glob("2*") for process in find(path.name)]
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    sockets = process.net_connections(kind="tcp")
                    self.found |= {tuple(each.laddr) for each in sockets if each.status == psutil.CONN_LISTEN}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_devices_2_goes_through_torchrun(tmp_path: Path) -> None:
    store = ["--store", str(tmp_path)]
    with Listeners(tmp_path) as listeners:
        (result,) = results(
            trainmark(
                *("run", "resnet50", *SMALL, "--devices", "2", "--max-steps", "6", "--max-seconds", "400"),
                *(*store, "--json"),
            )
        )
    assert result["outcome"] == "ok"
    assert result["devices"] == 2
    assert len(listeners.found) >= 2, "the store of the launcher, and gloo"
    assert {address for address, _ in listeners.found} == {"127.0.0.1"}, "other machines could reach the run"
    folder = tmp_path / result["id"]
    steps = [[r for r in read_records(folder / f"rank{rank}.jsonl") if r["kind"] == "step"] for rank in range(2)]
    assert [len(found) for found in steps] == [6, 6]
    assert {record["samples"] for record in steps[0]} == {4}
    assert json.loads((folder / "command.json").read_text())["launcher"] == "torchrun"
    assert find(result["id"]) == []
    _check_communication(result, folder)


def _check_communication(result: dict[str, Any], folder: Path) -> None:
    """Measured after the steps, and no part of them: 6 records above, and the same throughput with and without it."""
    found = result["communication"]
    assert found["gradient_bytes"] == 4 * 25_557_032
    assert 0.005 < found["allreduce_gb_per_s"] < 100
    assert found["allreduce_bus_gb_per_s"] == pytest.approx(found["allreduce_gb_per_s"])  # 2 (n - 1) / n = 1
    low, high = found["ci95"]
    assert low <= found["exposed_s"] <= high
    # Between nothing and the step itself, with room for a machine on which other tests run.
    assert -found["step_s"] < found["exposed_s"] < found["step_s"]
    assert 0 < found["compute_s"] < 2 * found["step_s"]
    ranks = [list(read_records(folder / f"rank{rank}.jsonl")) for rank in range(2)]
    pairs = [[r["pairs"] for r in records if r["kind"] == "communication"] for records in ranks]
    assert pairs[0] == pairs[1]  # of the slowest rank, so the same on each
    assert len(pairs[0][0]) == 6
    kinds = [record["kind"] for record in ranks[0] if record["kind"] in ("step", "communication", "run_end")]
    assert kinds == ["step"] * 6 + ["run_end", "communication"]
    samples_per_s = 6 * 4 / sum(record["seconds"] for record in ranks[0] if record["kind"] == "step")
    assert result["throughput"]["value"] >= samples_per_s * 0.99  # of its own steps, the first left out at most


def test_epochs_train_and_evaluate_and_a_bad_image_is_named(tmp_path: Path) -> None:
    root = make_images(tmp_path / "data", per_class=6)
    victim = root / "train" / "class0" / "0.jpg"
    victim.write_bytes(victim.read_bytes()[:300])
    argv = ["run", "resnet50", *SMALL, "--data", str(root), "--epochs", "2", "--store", str(tmp_path / "s"), "--json"]
    (result,) = results(trainmark(*argv))
    assert result["outcome"] == "ok"
    assert [(e["epoch"], e["metric"]) for e in result["evals"]] == [(1, "top1"), (1, "top5"), (2, "top1"), (2, "top5")]
    assert all(0 <= e["value"] <= 1 for e in result["evals"])
    assert result["records"] == 12
    warnings = [w for w in result["warnings"] if w["code"] not in OF_THE_MACHINE]
    assert [w["code"] for w in warnings] == ["bad-sample"]
    assert "train/class0/0.jpg" in warnings[0]["message"]


def test_cached_data(tmp_path: Path) -> None:
    root = make_images(tmp_path / "data")
    argv = [
        "run",
        "resnet50",
        *SMALL,
        "--data",
        f"cached:{root}",
        "--max-steps",
        "3",
        "--max-seconds",
        "120",
        "--store",
        str(tmp_path / "s"),
        "--json",
    ]
    (result,) = results(trainmark(*argv))
    assert (result["outcome"], result["records"]) == ("ok", 3)


def test_kill_9_at_random_moments_leaves_a_folder_that_show_can_read(tmp_path: Path) -> None:
    random.seed(0)
    for _ in range(4):
        process = subprocess.Popen(
            command("run", "resnet50", *SMALL, "--store", str(tmp_path)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(random.uniform(0.5, 9.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        names = {folder.name for folder in folders(tmp_path)}
        wait_until(
            lambda: not any(find(name) for name in names),  # noqa: B023
            what="no worker outlives its controller",
        )
        if names:
            shown = results(trainmark("show", "--json", "--store", str(tmp_path)))
            assert {result["id"] for result in shown} == names
            assert {result["outcome"] for result in shown} <= {"ok", "killed"}


def test_ctrl_c_keeps_what_was_measured_and_says_so(tmp_path: Path) -> None:
    argv = command("run", "resnet50", *SMALL, "--max-seconds", "120", "--target-ci", "1e-9", "--store", str(tmp_path))
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    wait_until(
        lambda: [path for path in tmp_path.glob("*/rank0.jsonl") if path.read_text().count('"kind":"step"') >= 5],
        seconds=120,
        what="5 steps are recorded",
    )
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted with 0 of 1 run done; results are kept" in err
    assert "Traceback" not in err
    (result,) = results(trainmark("show", "--json", "--store", str(tmp_path)))
    assert result["outcome"] == "killed"
    assert result["records"] >= 5


def test_out_of_memory_is_an_outcome(tmp_path: Path) -> None:
    """A batch no machine has memory for: the run ends as `oom`, the folder says what to do, exit code 1."""
    done = trainmark(
        "run",
        "resnet50",
        "--device",
        "cpu",
        "--batch-size",
        "500000000",
        "--store",
        str(tmp_path),
        "--json",
        check=False,
    )
    assert done.returncode == 1
    (result,) = results(done)
    assert result["outcome"] == "oom"
    assert "smaller --batch-size" in result["reason"]
    assert result["throughput"] is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_a_full_disk_is_said_and_nothing_is_half_written(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("this sandbox allows no mount")
    try:
        (mount / "filler").write_bytes(b"x" * 60 * 1024)
        done = trainmark("run", "resnet50", *SMALL, "--store", str(mount / "s"), check=False)
        assert done.returncode == 2
        assert "No space left" in done.stderr or "full" in done.stderr
        assert "--store" in done.stderr
        assert "Traceback" not in done.stderr
    finally:
        subprocess.run(["umount", str(mount)], check=False)


def test_this_torch_is_one_we_know() -> None:
    """RECIPES and speeds are for torch 2.11 and later; an older one would measure something else."""
    assert tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 11)
