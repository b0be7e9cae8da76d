"""Clusters on one machine: two network namespaces as two hosts, and a Slurm of two nodes. Both need root and Debian's
packages; where one is missing the test that asks for it skips and says so."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest


def need(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("needs root")


def call(*argv: str, timeout_s: float = 30) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


@dataclass(frozen=True, kw_only=True)
class Namespaces:
    """Two hosts with a cable between them."""

    names: tuple[str, str]
    addresses: tuple[str, str]

    def cluster(self, folder: Path, *, rendezvous: str = "static") -> Path:
        hosts = [f"{name}={address}" for name, address in zip(self.names, self.addresses, strict=True)]
        path = folder / f"cluster-{rendezvous}.toml"
        shell = '["ip", "netns", "exec", "{host}"]'
        threads = '{ OMP_NUM_THREADS = "1", OMP_WAIT_POLICY = "passive" }'
        path.write_text(
            f'hosts = {hosts!r}\nremote_shell = {shell}\nrendezvous = "{rendezvous}"\nenvironment = {threads}\n'
        )
        return path

    def set_link(self, state: str) -> None:
        call("ip", "-n", self.names[1], "link", "set", "eth0", state)

    @contextlib.contextmanager
    def limited_to(self, rate: str) -> Iterator[None]:
        for name in self.names:
            words = ("root", "tbf", "rate", rate, "burst", "256kb", "latency", "200ms")
            call("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", *words)
        try:
            yield
        finally:
            for name in self.names:
                call("ip", "netns", "exec", name, "tc", "qdisc", "del", "dev", "eth0", "root")


@contextlib.contextmanager
def network_namespaces() -> Iterator[Namespaces]:
    need("ip", "tc")
    tag = secrets.token_hex(3)
    names, net = (f"tm{tag}a", f"tm{tag}b"), f"10.{int(tag[:2], 16)}.{int(tag[2:4], 16)}"
    addresses = (f"{net}.1", f"{net}.2")
    try:
        for name in names:
            call("ip", "netns", "add", name)
        cable = ("type", "veth", "peer", "name", "eth0", "netns", names[1])
        call("ip", "link", "add", "eth0", "netns", names[0], *cable)
        for name, address in zip(names, addresses, strict=True):
            call("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                call("ip", "-n", name, "link", "set", device, "up")
    except OSError as error:
        _remove(names)
        pytest.skip(f"no network namespaces here: {error}")
    try:
        yield Namespaces(names=names, addresses=addresses)
    finally:
        _remove(names)


def _remove(names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(OSError):
            call("ip", "netns", "del", name)


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """The variables by which its programs find it."""
    need("slurmctld", "slurmd", "srun", "sbatch", "munged")
    (folder / "munge").mkdir(mode=0o700, parents=True)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    ports = _free_ports(3)
    config = folder / "slurm.conf"
    config.write_text(_SLURM.format(folder=folder, host=socket.gethostname().split(".")[0], ports=ports))
    variables = {"SLURM_CONF": str(config)}
    environment = {**os.environ, **variables}
    paths = {"key": key, "socket": folder / "munge/sock", "log": folder / "munge.log", "pid": folder / "munge.pid"}
    munged = [f"--{name}-file={path}" if name != "socket" else f"--socket={path}" for name, path in paths.items()]
    commands = [
        ["munged", "--foreground", "--force", *munged, f"--seed-file={folder / 'munge.seed'}"],
        ["slurmctld", "-D", "-c"],
        ["slurmd", "-D", "-N", "n1"],
        ["slurmd", "-D", "-N", "n2"],
    ]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for argv in commands:
            with (folder / f"{argv[0]}{len(daemons)}.out").open("wb") as output:
                daemons.append(subprocess.Popen(argv, env=environment, stdout=output, stderr=output))
            time.sleep(0.5)
        _wait_until_idle(environment, folder)
        yield variables
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(timeout=10)
            daemon.kill()
            daemon.wait()


def _wait_until_idle(environment: dict[str, str], folder: Path) -> None:
    told = ""
    for _ in range(100):
        argv = ["sinfo", "--noheader", "--format=%D %t"]
        told = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=30, check=False).stdout
        if told.strip() == "2 idle":
            return
        time.sleep(0.2)
    logs = "".join(path.read_text(errors="replace")[-500:] for path in sorted(folder.glob("*.out")))
    pytest.skip(f"Slurm does not come up here: {told} {logs}")


def _free_ports(num: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(num)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


_SLURM = """ClusterName=trainmark
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
KillWait=3
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 State=UNKNOWN
PartitionName=debug Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""
