"""`doctor --network`: really, between two processes on this machine; and what its numbers mean."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from making import make_machine
from schema_checking import check_document
from trainmark.analyse.communication import Network, summarise_exchange, summarise_network
from trainmark.cli import doctor
from trainmark.cli.main import main
from trainmark.report.network import print_network, verdict


def test_two_real_processes(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "trainmark.cli.main", "doctor", "--network", "--device", "cpu", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == [], "no store stays that was made for this"
    document = json.loads(done.stdout)
    check_document("doctor-network", document)
    network = document["network"]
    assert (network["backend"], network["num_ranks"], len(network["hosts"])) == ("gloo", 2, 1)
    sizes = [exchange["num_bytes"] for exchange in network["exchanges"]]
    assert sizes + network["left_out_bytes"] == [4**power for power in range(1, 14)]
    for exchange in network["exchanges"]:
        assert exchange["algorithm_gb_per_s"] == pytest.approx(exchange["num_bytes"] / exchange["seconds"] / 1e9)
    assert 0 < network["latency_s"] < network["exchanges"][-1]["seconds"]
    assert "over gloo, 2 processes on 1 host" in network["verdict"]


def test_a_dry_one_is_a_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--network", "--device", "cpu", "--launcher", "dry", "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    check_document("run-dry", document)
    (command,) = document["commands"]
    assert command["argv"][-2:] == ["trainmark.worker.torch.network", "FOLDER"]
    assert "nothing was started" in err


def test_what_this_machine_lacks_matters_only_where_it_does_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = make_machine(1, frameworks_without_gpu=("torch",))
    monkeypatch.setattr(doctor, "read_machine", lambda: here)
    words = ["doctor", "--network", "--device", "cuda", "--devices", "2"]
    assert main(words) == 2
    assert "the installed torch is built for CPUs only" in capsys.readouterr().err
    assert main([*words, "--launcher", "dry"]) == 0


def make_network() -> Network:
    sizes = [{"num_bytes": 4, "seconds": [0.9, 4.5e-5, 4.4e-5]}, {"num_bytes": 64 << 20, "seconds": [0.016]}]
    document = {"backend": "gloo", "num_ranks": 4, "hosts": ["a", "a", "b", "b"], "sizes": sizes}
    return summarise_network({**document, "left_out_bytes": [256 << 20]})


def test_bandwidth_by_hand() -> None:
    """Four ranks each send 2 * 3/4 of a buffer at least: 1 GB in 0.5 s is 2 GB/s, and 3 GB/s on the wire."""
    exchange = summarise_exchange(10**9, [0.4, 0.5, 9.0], num_ranks=4)
    assert (exchange.seconds, exchange.algorithm_gb_per_s, exchange.bus_gb_per_s) == (0.5, 2.0, 3.0)


def test_the_verdict_and_the_table() -> None:
    network = make_network()
    assert verdict(network) == "latency 45.0 µs, 6.29 GB/s at 64.0 MiB over gloo, 4 processes on 2 hosts"
    file = io.StringIO()
    print_network(network, Console(file=file, width=80))
    assert "16.0 ms" in file.getvalue()
    assert "skipped, would take too long: 256.0 MiB" in file.getvalue()
