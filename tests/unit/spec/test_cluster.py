from __future__ import annotations

from typing import Any

import pytest

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
    ],
)
def test_a_strangers_suite_starts_no_program(raw: dict[str, Any], *, is_fine: bool) -> None:
    faults: list[Fault] = []
    check_suite_cluster(raw, faults)
    assert (faults == []) is is_fine
