"""Facts about this machine, for the plan before a run and for the worker inside it. Standard library only."""

from __future__ import annotations

import fcntl
import os
import platform
import socket
import struct
from pathlib import Path


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def num_processors() -> int | None:
    """Number of CPU sockets; None if the kernel does not say (ARM, some containers)."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return len({line.partition(":")[2].strip() for line in lines if line.startswith("physical id")}) or None


def num_cores() -> int:
    """Cores that this process may use: containers and Slurm limit them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def interface_to(address: str) -> str | None:
    """The network interface for traffic to `address`; None if that is this machine or the interface is unknown.

    Libraries guess it from the host name, which Debian maps to the loopback address.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # sends nothing, only looks up the route
            own = probe.getsockname()[0]
            found = next((name for _, name in socket.if_nameindex() if _address_of(probe, name) == own), None)
    except OSError:
        return None
    return None if found == "lo" else found


def _address_of(probe: socket.socket, interface: str) -> str | None:
    get_address = 0x8915  # SIOCGIFADDR of Linux
    try:
        answer = fcntl.ioctl(probe, get_address, struct.pack("256s", interface.encode()[:15]))
    except OSError:
        return None
    return socket.inet_ntoa(answer[20:24])


def private_bytes() -> int | None:
    """Memory of this process that RLIMIT_DATA counts; None if the kernel does not say."""
    return _read_kilobytes(Path("/proc/self/status"), "VmData")


def free_bytes() -> int:
    """Memory that new processes can use, on this machine or within the limit of the container."""
    free = _read_kilobytes(Path("/proc/meminfo"), "MemAvailable") or memory_bytes()
    groups = Path("/sys/fs/cgroup")
    pairs = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))
    for most, used in pairs:
        try:
            free = min(free, int((groups / most).read_text()) - int((groups / used).read_text()))
        except (OSError, ValueError):  # another version of cgroups, or no limit
            continue
    return max(0, free)


def _read_kilobytes(path: Path, key: str) -> int | None:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{key}:")), None)
    except (OSError, ValueError, IndexError):
        return None
