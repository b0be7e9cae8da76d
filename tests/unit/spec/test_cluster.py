from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainmark.cli.main import main
from trainmark.errors import Fault
from trainmark.spec.cluster import Cluster, Host, check_suite_cluster, parse_cluster


def test_a_whole_cluster() -> None:
    faults: list[Fault] = []
    raw: dict[str, Any] = {
        "hosts": ["a", "b=10.0.0.2"],
        "remote_shell": ["ssh", "{host}"],
        "interface": "ib0",
        "rendezvous": "elastic",
        "environment": {"NCCL_IB_HCA": "mlx5", "NCCL_DEBUG": "WARN", "NCCL_MIN_NCHANNELS": 4},
        "slurm_arguments": ["--partition=gpu"],
    }
    cluster = parse_cluster(raw, faults)
    assert faults == []
    assert cluster.hosts == (Host(name="a", address="a"), Host(name="b", address="10.0.0.2"))
    assert cluster.variables == {
        "GLOO_SOCKET_IFNAME": "ib0",
        "NCCL_SOCKET_IFNAME": "ib0",
        "NCCL_IB_HCA": "mlx5",
        "NCCL_DEBUG": "WARN",
        "NCCL_MIN_NCHANNELS": "4",
    }


def test_nothing_said_is_the_default() -> None:
    assert parse_cluster({}, []) == Cluster()


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        ({"hosts": ["-oProxyCommand=sh"]}, "cluster.hosts"),
        ({"hosts": ["a;b"]}, "cluster.hosts"),
        ({"hosts": "a"}, "cluster.hosts"),
        ({"remote_shell": ["ssh"]}, "cluster.remote_shell"),
        ({"rendezvous": "magic"}, "cluster.rendezvous"),
        ({"environment": {"A B": "1"}}, "cluster.environment"),
        ({"environment": {"A": []}}, "cluster.environment"),
        ({"interface": 3}, "cluster.interface"),
        ({"host": ["a"]}, "cluster.host"),
        ({"hosts": ["a", "b", "a"]}, "cluster.hosts"),
        ({"environment": {"TRAINMARK_RUN": "x"}}, "cluster.environment"),
        ({"environment": {"RANK": 3}}, "cluster.environment"),
        ({"resources": {"CPU!": 3}}, "cluster.resources"),
    ],
)
def test_faults(raw: dict[str, Any], where: str) -> None:
    faults: list[Fault] = []
    parse_cluster(raw, faults)
    assert [fault.where for fault in faults] == [where]


HARMLESS = (
    "NCCL_P2P_DIRECT_DISABLE", "NCCL_SOCKET_IFNAME", "UCX_TLS", "UCX_IB_GID_INDEX", "KMP_AFFINITY", "OMP_PROC_BIND",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "FI_PROVIDER", "FI_EFA_USE_DEVICE_RDMA", "MKL_NUM_THREADS",
)  # fmt: skip
HARMFUL = (
    "UCX_GDB_COMMAND", "UCX_MEMTRACK_DEST", "UCX_STATS_DEST", "UCX_ERROR_MAIL_TO", "UCX_MODULE_DIR",
    "NCCL_DEBUG_FILE", "NCCL_COMM_ID", "NCCL_NEW_THING", "NCCL_RAS_ADDR", "CUDA_INJECTION64_PATH", "CUDA_COREDUMP_PIPE",
    "FI_PROVIDER_PATH", "OMP_TOOL_LIBRARIES", "KMP_CPUINFO_FILE", "MKL_VERBOSE_OUTPUT_FILE", "nccl_debug", "BASH_ENV",
    "PYTHONSTARTUP", "http_proxy", "GLOO_X", "NCCL_TUNER_PLUGIN", "NCCL_CONF_FILE", "UCX_PROFILE_FILE",
)  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "is_fine"),
    [
        ({"hosts": ["a"], "environment": {"NCCL_IB_HCA": "mlx5", "OMP_NUM_THREADS": 2}}, True),
        ({"remote_shell": ["sh", "-c", "touch /tmp/x {host}"]}, False),
        ({"mpi_arguments": ["--mca", "plm_rsh_agent", "/tmp/x"]}, False),
        ({"slurm_arguments": ["--prolog=/tmp/x"]}, False),
        ({"environment": {"LD_PRELOAD": "/tmp/x.so"}}, False),
        ({"environment": {"PYTHONPATH": "/tmp"}}, False),
        ({"environment": {"NCCL_NET_PLUGIN": "/tmp/x.so"}}, False),
        ({"environment": {"OMPI_MCA_plm_rsh_agent": "/tmp/x"}}, False),
        *(({"environment": {name: "x"}}, True) for name in HARMLESS),
        *(({"environment": {name: "x"}}, False) for name in HARMFUL),
    ],
)
def test_a_strangers_suite_starts_no_program(raw: dict[str, Any], *, is_fine: bool) -> None:
    faults: list[Fault] = []
    check_suite_cluster(raw, faults)
    assert (faults == []) is is_fine


def test_the_user_may_allow_a_variable_by_name() -> None:
    raw = {"environment": {"MY_FLAG": "1", "LD_PRELOAD": "x"}}
    faults: list[Fault] = []
    check_suite_cluster(raw, faults, allowed=["MY_FLAG"])
    assert [fault.problem for fault in faults] == ["LD_PRELOAD is not allowed in a suite"]
    assert "--allow-env LD_PRELOAD" in faults[0].hint


def test_only_the_command_line_allows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = tmp_path / "own.toml"
    suite.write_text('[cluster]\nenvironment = { MY_FLAG = "1" }\n[[cells]]\nworkload = "resnet50"\n')
    asked = ["plan", str(suite), "--device", "cpu", "--store", str(tmp_path / "s")]
    assert main(asked) == 2
    assert "--allow-env MY_FLAG" in capsys.readouterr().err
    assert main([*asked, "--allow-env", "MY_FLAG"]) == 0
    suite.write_text('allow_env = ["MY_FLAG"]\n' + suite.read_text())
    assert main(asked) == 2
