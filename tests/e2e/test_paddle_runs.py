"""Paddle through the real command line: two processes, by every launcher, and what its own launcher may write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from clusters import need, network_namespaces, slurm
from test_runs import results, trainmark

from making import make_images
from trainmark.launch.processes import find
from trainmark.runfolder.files import COMMAND_FILE, OUTPUT_FILE
from trainmark.runfolder.records import read_records
from waiting import wait_until

pytest.importorskip("paddle")

SMALL = ("--framework", "paddle", "--device", "cpu", "--size", "small", "--batch-size", "2", "--max-steps", "4")
SECRETS = {"GITHUB_TOKEN": "ghp_abcdefghijklmnopqrst", "DATABASE": "postgres://me:hunter2hunter2@db/x"}
OUTER_SHELL = {
    "PMI_RANK": "0",
    "PMI_SIZE": "1",
    "SLURM_PROCID": "0",
    "MASTER_ADDR": "login",
    "CUDA_VISIBLE_DEVICES": "0",
}
SCRIPT = """
import os, sys, time
assert os.environ["GITHUB_TOKEN"] + os.environ["DATABASE"] + sys.argv[2] == open("expected").read()
own = "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "PADDLE_DISTRI_BACKEND"
open("rank" + os.environ["RANK"], "w").write(" ".join(os.environ[name] for name in own))
assert os.environ["MASTER_ADDR"] != "login"
time.sleep(600)
"""
TRAIN = """
import json
from trainmark import mark
from trainmark.worker.paddle.engine import PaddleEngine
from making import make_workload_cell
engine = PaddleEngine(make_workload_cell(framework="paddle", devices_per_node=2, batch_size_per_device=2))
mark.step(samples=2)
for _ in range(2):
    engine.step()
    mark.step(samples=2)
loss = engine.read_loss(engine.queue_loss())
everyone = engine.gather((engine.rank, loss, engine._fingerprint(), engine.weights_changed()))
if engine.rank == 0:
    json.dump(everyone, open("everyone", "w"))
engine.close()
"""


def test_two_processes_train_and_evaluate_on_generated_images(tmp_path: Path) -> None:
    data = make_images(tmp_path / "data", per_class=4)
    argv = ["run", "resnet50", "--framework", "paddle", "--device", "cpu", "--size", "small", "--devices", "2"]
    training = ["--batch-size", "2", "--data", str(data), "--epochs", "1", "--lr", "0.01"]
    done = trainmark(*argv, *training, "--store", str(tmp_path / "s"), "--json", check=False)
    (result,) = results(done)
    folder = tmp_path / "s" / result["id"]
    assert result["framework"] == "paddle", done.stderr
    assert [e["metric"] for e in result["evals"]] == ["top1", "top5"], (folder / "output.log").read_text()[-2000:]
    assert json.loads((folder / COMMAND_FILE).read_text())["launcher"] == "paddle", "chosen without being asked for"
    losses = [[r["loss"] for r in read_records(folder / f"rank{rank}.jsonl") if r["kind"] == "step"] for rank in (0, 1)]
    assert len(losses[0]) == len(losses[1]) == result["records"] > 0
    assert losses[0] != losses[1], "the ranks see different images"
    assert "ccache" not in done.stderr


def test_paddles_launcher_writes_no_secrets_and_takes_no_ranks_of_others(tmp_path: Path) -> None:
    """Looked at while everything runs, and after the launcher was killed: it cannot remove anything then."""
    secrets = (*SECRETS.values(), "pass-of-the-script")
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "expected").write_text("".join(secrets))
    words = ["run", "--launcher", "paddle", "--devices", "2", "--device", "cpu", "--retries", "0", "--store", "s", "--"]
    argv = [*words, sys.executable, "script.py", "--password", secrets[-1]]
    environment = {**os.environ, **SECRETS, **OUTER_SHELL}
    controller = subprocess.Popen([sys.executable, "-m", "trainmark.cli.main", *argv], cwd=tmp_path, env=environment)
    try:
        ranks = [tmp_path / "rank0", tmp_path / "rank1"]
        wait_until(lambda: all(path.exists() and path.read_text() for path in ranks), what="both processes run")
        (folder,) = (path for path in (tmp_path / "s").iterdir() if path.is_dir())
        assert [path.read_text() for path in ranks] == ["0 2 0 2 gloo", "1 2 1 2 gloo"]
        for process in find(folder.name):
            if "paddle.distributed.launch" in process.cmdline():
                process.send_signal(signal.SIGKILL)
        assert controller.wait(timeout=60) == 1
    finally:
        controller.kill()
        controller.wait()
    assert not psutil.wait_procs(find(folder.name), timeout=10)[1]
    assert sorted(path.name for path in (folder / "paddle").iterdir()) == ["workerlog.0", "workerlog.1"]
    written = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert [path for path, data in written.items() for secret in secrets if secret.encode() in data] == []
    assert b"LAUNCH" in written[Path(OUTPUT_FILE)]


def test_mpirun_averages_the_gradients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("mpirun")
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.chdir(tmp_path)
    argv = ["run", "--launcher", "mpi", "--devices", "2", "--device", "cpu", "--store", "s", "--json"]
    done = trainmark(*argv, "--", sys.executable, "train.py", check=False)
    (result,) = results(done)
    assert result["outcome"] == "ok", done.stderr + Path("s", result["id"], OUTPUT_FILE).read_text()[-2000:]
    first, second = json.loads(Path("everyone").read_text())
    assert (first[0], second[0]) == (0, 1)
    assert first[1] != second[1], "they see different samples"
    assert first[2] == second[2], "and take the same steps"
    assert (first[3], second[3]) == (True, True)


def test_paddles_launcher_on_two_machines(tmp_path: Path) -> None:
    """The machines know themselves by another address than the others use."""
    with network_namespaces() as namespaces:
        where = ["--nodes", "2", "--cluster", str(namespaces.cluster(tmp_path)), "--store", str(tmp_path / "s")]
        done = trainmark("run", "resnet50", *SMALL, *where, "--retries", "0", "--json", check=False)
    (result,) = results(done)
    folder = tmp_path / "s" / result["id"]
    assert (result["outcome"], result["devices"]) == ("ok", 2), (folder / OUTPUT_FILE).read_text()[-2000:]
    assert json.loads((folder / COMMAND_FILE).read_text())["launcher"] == "paddle"


def test_slurm_is_chosen_inside_an_allocation_and_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with slurm(tmp_path / "slurm") as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        salloc = ["salloc", "--quiet", "--nodes=2", "--ntasks-per-node=1", sys.executable, "-m", "trainmark.cli.main"]
        argv = ["run", "resnet50", *SMALL, "--nodes", "2", "--retries", "0", "--store", str(tmp_path / "s"), "--json"]
        done = subprocess.run([*salloc, *argv], capture_output=True, text=True, timeout=200, check=False)
    (result,) = results(done)
    folder = tmp_path / "s" / result["id"]
    assert (result["outcome"], result["devices"]) == ("ok", 2), (folder / OUTPUT_FILE).read_text()[-2000:]
    assert json.loads((folder / COMMAND_FILE).read_text())["launcher"] == "slurm"
