from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trainmark.errors import InputError
from trainmark.launch import local, mpi, paddle, slurm, spawn, torchrun
from trainmark.launch.endings import decide, describe_exit, judge_command
from trainmark.launch.job import Job, own_python
from trainmark.launch.registry import choose
from trainmark.messages.ranks import no_step
from trainmark.runfolder.records import Outcome
from trainmark.spec.cluster import Cluster, Host

JOB = Job(run_id="r1", folder=Path("/runs/r1"), python="/py", processes_per_node=4, num_cores=8)
WORKER = ("/py", "-P", "-m", "trainmark.worker.main", "/runs/r1")


def rank_argv(launcher: str) -> tuple[str, ...]:
    return ("/py", "-P", "-m", "trainmark.launch.rank_command", f"--launcher={launcher}", *WORKER)


CLUSTER = Cluster(
    hosts=(Host(name="a", address="10.0.0.1"), Host(name="b", address="10.0.0.2")),
    remote_shell=("ssh", "{host}"),
    interface="ib0",
    environment={"NCCL_DEBUG": "WARN"},
)
TWO_NODES = replace(JOB, num_nodes=2, num_cores=0, device="cuda", cluster=CLUSTER, inherited={"PATH": "/bin dir"})
VARIABLES = {
    "TRAINMARK_RUN": "r1",
    "PYTHONUNBUFFERED": "1",
    "GLOO_SOCKET_IFNAME": "ib0",
    "NCCL_SOCKET_IFNAME": "ib0",
    "NCCL_DEBUG": "WARN",
}


def test_local_command() -> None:
    (command,) = local.build_commands(JOB)
    assert command.argv == WORKER
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    ours = {"TRAINMARK_RUN": "r1", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "2"}
    assert command.environment == {**alone, **ours}
    (command,) = local.build_commands(replace(JOB, argv=("python", "own.py")))
    assert not set(alone) & set(command.environment), "somebody's own script may mean them"


def test_torchrun_on_one_machine() -> None:
    (command,) = torchrun.build_commands(JOB)
    assert command.argv == (
        "/py", "-P", "-m", "trainmark.worker.torch.loopback", "--nproc-per-node=4",
        "--max-restarts=0", "--no-python", "--", *WORKER,
    )  # fmt: skip


def test_torchrun_over_nodes_by_ssh() -> None:
    first, second = torchrun.build_commands(TWO_NODES)
    words = shlex.split(second.argv[2])
    assert second.argv[:2] == ("ssh", "b")
    assert len(second.argv) == 3, "ssh gives its words to a shell, so they are quoted as one"
    assert words == [
        "env", "PATH=/bin dir", *(f"{name}={value}" for name, value in VARIABLES.items()),
        "/py", "-P", "-m", "torch.distributed.run", "--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1",
        f"--master-port={JOB.port}", "--nproc-per-node=4", "--max-restarts=0", "--no-python", "--", *WORKER,
    ]  # fmt: skip
    assert "--node-rank=0" in first.argv[2]
    assert second.cancel[:2] == ("ssh", "b")
    assert shlex.split(second.cancel[2]) == [
        "env", "PATH=/bin dir", "/py", "-P", "-m", "trainmark.launch.processes", "r1",
    ]  # fmt: skip


def test_processes_elsewhere_run_in_the_same_folder() -> None:
    command = torchrun.build_commands(replace(TWO_NODES, cwd=Path("/home/me/my work")))[1]
    assert shlex.split(command.argv[2])[:2] == ["env", "--chdir=/home/me/my work"]


def test_torchrun_elastic_by_another_remote_shell() -> None:
    shell = ("ip", "netns", "exec", "{host}")
    job = replace(TWO_NODES, cluster=replace(CLUSTER, rendezvous="elastic", remote_shell=shell))
    command = torchrun.build_commands(job)[1]
    assert command.argv[:4] == ("ip", "netns", "exec", "b")
    begin = command.argv.index("/py")
    assert command.argv[begin:] == (
        "/py", "-P", "-m", "torch.distributed.run", "--nnodes=2", "--rdzv-backend=c10d",
        f"--rdzv-endpoint=10.0.0.1:{JOB.port}", "--rdzv-id=r1", "--rdzv-conf=is_host=0", "--local-addr=10.0.0.2",
        "--nproc-per-node=4", "--max-restarts=0", "--no-python", "--", *WORKER,
    )  # fmt: skip


def test_mpirun_with_a_host_file() -> None:
    (command,) = mpi.build_commands(replace(TWO_NODES, cluster=replace(CLUSTER, mpi_arguments=("--mca", "btl", "tcp"))))
    names = ("PATH", *VARIABLES, "MASTER_PORT", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    assert command.argv == (
        "mpirun", "--hostfile", "/runs/r1/hostfile", "-np", "8", "--map-by", "ppr:4:node", "--bind-to", "none",
        "--tag-output", *(word for name in names for word in ("-x", name)), "--mca", "btl", "tcp", *rank_argv("mpi"),
    )  # fmt: skip
    assert command.files == {"hostfile": "a slots=4\nb slots=4\n"}
    ranked = {"MASTER_PORT": str(JOB.port), "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1"}
    assert command.environment == {**VARIABLES, **ranked}


def test_mpirun_here_as_root() -> None:
    (command,) = mpi.build_commands(replace(JOB, is_root=True))
    assert command.argv[:6] == ("mpirun", "--allow-run-as-root", "--host", "localhost:4", "-np", "4")
    assert command.environment["MASTER_ADDR"] == "127.0.0.1"


def test_srun_inside_an_allocation() -> None:
    job = replace(TWO_NODES, is_allocated=True, cluster=Cluster(slurm_arguments=("--partition=gpu",)))
    (command,) = slurm.build_commands(job)
    assert command.argv == (
        "srun", "--job-name=r1", "--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--gpus-per-node=4",
        "--kill-on-bad-exit=1", "--label", "--unbuffered", "--export=ALL", "--partition=gpu", *rank_argv("slurm"),
    )  # fmt: skip
    assert command.environment["TRAINMARK_LEASE"] == "/runs/r1/lease"
    assert command.started_file is None


def test_sbatch_waits_and_can_be_cancelled() -> None:
    (command,) = slurm.build_commands(replace(JOB, num_nodes=2, device="cpu"))
    size = "--job-name=r1 --nodes=2 --ntasks=8 --ntasks-per-node=4"
    step = f"srun {size} --kill-on-bad-exit=1 --label --unbuffered --export=ALL {' '.join(rank_argv('slurm'))}"
    cores = '[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"'
    begin = f"{cores}; : > /runs/r1/slurm_started"
    end = "code=$?; echo $code > /runs/r1/slurm_exit.part; mv /runs/r1/slurm_exit.part /runs/r1/slurm_exit; exit $code"
    assert command.argv == (
        "sbatch", "--wait", "--parsable", *size.split(), "--output=/runs/r1/output.log", "--no-requeue",
        "--open-mode=append", "--export=ALL", f"--wrap={begin}; {step}; {end}",
    )  # fmt: skip
    assert command.cancel == ("scancel", "--name=r1")
    assert command.environment["MASTER_ADDR"] == "", "what an outer shell has there is another's"
    (odd,) = slurm.build_commands(replace(JOB, num_nodes=2, folder=Path("/a %j b")))
    assert "--output=/a %%j b/output.log" in odd.argv
    assert (command.started_file, command.exit_file) == (Path("/runs/r1/slurm_started"), Path("/runs/r1/slurm_exit"))
    assert "OMP_NUM_THREADS" not in command.environment, "the cores of another machine are Slurm's to share out"


def test_paddle_on_two_machines() -> None:
    command = paddle.build_commands(TWO_NODES)[1]
    words = shlex.split(command.argv[2])
    assert words[words.index("/py") :] == [
        "/py", "-P", "-m", "trainmark.worker.paddle.private", "paddle.distributed.launch", "--nnodes=2",
        "--nproc_per_node=4", f"--master=10.0.0.1:{JOB.port}", "--rank=1", "--host=10.0.0.2",
        "--job_id=r1", "--log_dir=/runs/r1/paddle",
        "--enable_gpu_log=0", "--max_restart=0", "--", *rank_argv("paddle"),
    ]  # fmt: skip
    assert "PADDLE_DISTRI_BACKEND" not in command.environment
    on_cpu = paddle.build_commands(replace(JOB, device="cpu"))[0]
    assert on_cpu.environment["PADDLE_DISTRI_BACKEND"] == "gloo", "with a build for GPUs, too"


def test_spawn_on_one_machine_and_on_two() -> None:
    (command,) = spawn.build_commands(JOB)
    each = f"--processes={JOB.processes_per_node}"
    own = ("/py", "-P", "-m", "trainmark.launch.spawn_ranks", "--nodes=1", each, "--")
    assert command.argv == (*own, "/py", "-P", "-m", "trainmark.worker.main", "/runs/r1")
    words = shlex.split(spawn.build_commands(TWO_NODES)[1].argv[2])
    begin = words.index("trainmark.launch.spawn_ranks") + 1
    assert words[begin : begin + 4] == [
        "--nodes=2", f"--processes={TWO_NODES.processes_per_node}", "--node-rank=1", f"--master=10.0.0.1:{JOB.port}"
    ]  # fmt: skip


def test_ports_are_below_those_of_outgoing_connections_and_change_with_the_run() -> None:
    ports = {replace(JOB, run_id=f"r{number}").port for number in range(200)}
    assert len(ports) > 190
    assert min(ports) >= 15_000
    assert max(ports) < 32_768


def test_threads_are_left_alone_on_a_gpu() -> None:
    assert "OMP_NUM_THREADS" not in local.build_commands(replace(JOB, num_cores=0))[0].environment


def test_the_launcher_follows_the_number_of_processes() -> None:
    assert choose("auto", num_processes=1) is local.LAUNCHER
    assert choose("auto", num_processes=2) is torchrun.LAUNCHER
    assert choose("auto", num_processes=1, num_hosts=2) is torchrun.LAUNCHER
    assert choose("auto", num_processes=1, num_nodes=2, is_allocated=True) is slurm.LAUNCHER
    assert choose("auto", num_processes=1, num_nodes=2, is_allocated=True, num_hosts=2) is torchrun.LAUNCHER
    assert choose("torchrun", num_processes=1) is torchrun.LAUNCHER
    with pytest.raises(InputError, match="does not fit"):
        choose("local", num_processes=2)


@pytest.mark.parametrize("name", ["auto", "dry", "kubernetes"])
def test_the_launcher_follows_the_framework(name: str) -> None:
    assert choose(name, num_processes=2, framework="torch") is torchrun.LAUNCHER
    assert choose(name, num_processes=2, framework="paddle") is paddle.LAUNCHER
    assert choose(name, num_processes=2, framework="jax") is spawn.LAUNCHER, "one process for each device"
    assert choose(name, num_processes=1, framework="paddle") is local.LAUNCHER
    assert choose(name, num_processes=1, num_hosts=2, framework="paddle") is paddle.LAUNCHER
    assert choose(name, num_processes=1, num_nodes=2, is_allocated=True, framework="paddle") is slurm.LAUNCHER


def test_a_launcher_of_another_framework_is_refused() -> None:
    with pytest.raises(InputError, match="torchrun starts torch, not paddle"):
        choose("torchrun", num_processes=2, framework="paddle")


def outcome_of(*ends: dict[str, str], returncode: int | None = 1, ended_by: Outcome | None = None) -> Outcome:
    why = (ended_by, no_step(seconds=9.0, usual_s=None, causes=[])) if ended_by is not None else None
    return decide(run_ends=dict(enumerate(ends)), returncode=returncode, ended_by=why).outcome


def test_outcomes() -> None:
    ok = {"outcome": "ok", "reason": "20 steps done"}
    assert outcome_of(ok, returncode=0) is Outcome.OK
    assert outcome_of(ok) is Outcome.FAILED
    assert outcome_of({"outcome": "oom"}) is Outcome.OUT_OF_MEMORY
    assert outcome_of({"outcome": "nan"}) is Outcome.NAN
    assert outcome_of(returncode=-9) is Outcome.KILLED
    assert outcome_of() is Outcome.FAILED
    assert outcome_of(returncode=0) is Outcome.FAILED
    assert outcome_of(ok, returncode=-15, ended_by=Outcome.HANG) is Outcome.HANG
    assert outcome_of({"outcome": "invented"}) is Outcome.FAILED
    assert outcome_of(ok, returncode=None) is Outcome.HANG


def test_the_rank_that_failed_is_believed() -> None:
    killed, ok = {"outcome": "killed"}, {"outcome": "ok"}
    assert outcome_of(killed, {"outcome": "oom"}) is Outcome.OUT_OF_MEMORY
    assert outcome_of(ok, {"outcome": "nan"}) is Outcome.NAN
    ending = decide(run_ends={3: {"outcome": "oom"}}, returncode=1, ended_by=None)
    assert (ending.outcome, ending.look_at) == (Outcome.OUT_OF_MEMORY, "rank3.jsonl")


def test_a_kill_is_named() -> None:
    assert "when memory ran out" in describe_exit(-9).english
    assert describe_exit(-15).english == "SIGTERM"
    assert describe_exit(3).english == "exit code 3"
    assert describe_exit(-99).english == "signal 99"


def test_a_command_runs_as_it_is_and_knows_where_to_mark() -> None:
    job = Job(
        run_id="r1",
        folder=Path("/runs/r1"),
        python="/py",
        processes_per_node=2,
        num_cores=0,
        argv=("sh", "train.sh", "a b"),
    )
    (command,) = local.build_commands(job)
    assert command.argv == ("sh", "train.sh", "a b")
    assert command.environment == {"TRAINMARK_RUN": "r1", "PYTHONUNBUFFERED": "1", "TRAINMARK_MARK": "/runs/r1"}
    assert torchrun.build_commands(job)[0].argv[-5:] == ("--no-python", "--", "sh", "train.sh", "a b")


@pytest.mark.parametrize(
    ("returncode", "output", "outcome"),
    [
        (0, b"done", Outcome.OK),
        (0, b"Loss: 0.31", Outcome.OK),
        (0, b"loss: nan, lr 0.1\nloss: 0.2", Outcome.OK),
        (0, b"loss: 0.2\n| Loss NaN (nan) |", Outcome.NAN),
        (0, b"{'loss': inf}", Outcome.NAN),
        (3, b"Traceback\nKeyError: 1", Outcome.FAILED),
        (1, b"torch.OutOfMemoryError: CUDA out of memory.", Outcome.OUT_OF_MEMORY),
        (-9, b"", Outcome.KILLED),
    ],
)
def test_how_a_command_ended(returncode: int, output: bytes, outcome: Outcome) -> None:
    end = judge_command(returncode=returncode, last_output=output, bad_loss=None)
    ending = decide(run_ends={0: end}, returncode=returncode, ended_by=None)
    assert (ending.outcome, ending.look_at) == (outcome, "output.log")


@pytest.mark.parametrize(
    ("output", "last"),
    [
        (b"Traceback\nKeyError: 1\n\n", "KeyError: 1"),
        (b"KeyError: 1\n" + bytes(range(128, 256)) * 9, "KeyError: 1"),
        (
            b"\x00\xff" * 99 + b" cannot open shapes " + b"\xfe\x01ab\xff" * 99 + b" at 7:1\xff",
            "cannot open shapes at 7:1",
        ),
        (bytes(range(128, 256)) * 9, ""),
        (b" 1%|   |\r 99%|## |\rstopped\x1b[0m\r\n", "stopped"),
        (b"\x1b[31mErreur: donn\xe9es\x1b[0m", "Erreur: donnes"),
        ("错误: 内存".encode(), "错误: 内存"),
        (b"x" * 900, "x" * 300),
    ],
)
def test_the_reason_ends_with_a_line_that_can_be_read(output: bytes, last: str) -> None:
    end = judge_command(returncode=3, last_output=output, bad_loss=None)
    assert end["reason"] == "the command ended with exit code 3" + (f": {last}" if last else "")


def test_a_module_in_the_current_folder_is_not_meant(tmp_path: Path) -> None:
    (tmp_path / "re.py").write_text("raise SystemExit('not this one')")
    done = subprocess.run(
        [*own_python(sys.executable), "trainmark.launch.rank_command", "true"], cwd=tmp_path, check=False
    )
    assert done.returncode == 0
