"""`python -m trainmark.worker.preflight REQUEST`: check each machine of a run before anything is trained.

A process on each machine says what it has, meets the others on the master's port, tries to connect to each of them, and
prints one line. Clocks are compared with the master's at the midpoint between question and answer.
Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import resource
import shutil
import socket
import sys
import tempfile
import threading
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import trainmark
from trainmark import host
from trainmark.parent_death import die_with
from trainmark.runfolder.records import PREFLIGHT_SIGN

_NO_WAY_S = 3.0
_SHM = Path("/dev/shm")  # noqa: S108 - looked at, not written to


def main(argv: list[str]) -> int:
    die_with(os.getppid())
    request: dict[str, Any] = json.loads(argv[1])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    master = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    answer = {"rank": rank, **describe(request)}
    try:
        meeting = _lead if rank == 0 else _join
        answer |= meeting(rank, size, master, time.monotonic() + float(request["wait_s"]))
    except OSError as error:
        answer["error"] = f"{master[0]}:{master[1]}: {error.strerror or error}"
    print(PREFLIGHT_SIGN + json.dumps(answer), flush=True)
    return 0


def describe(request: dict[str, Any]) -> dict[str, Any]:
    folder = Path(request["folder"])
    return {
        "host": platform.node(),
        "python": platform.python_version(),
        "trainmark": trainmark.__version__,
        "code": hash_code(Path(trainmark.__file__).parent),
        "framework": _version(request["package"]) if request["package"] else None,
        "num_gpus": _num_gpus() if request["device"] == "cuda" else None,
        "sees_store": (folder / request["token"]).exists(),
        "writes_store": _can_write(folder),
        "missing_data": [path for path in request["data"] if not Path(path).exists()],
        "free_bytes": shutil.disk_usage(folder).free if folder.exists() else None,
        "shm_bytes": shutil.disk_usage(_SHM).free if _SHM.exists() else None,
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "locked_bytes": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        "interface": host.interface_to(os.environ["MASTER_ADDR"]),
    }


def _can_write(folder: Path) -> bool:
    """By trying: permissions may allow what the file system refuses."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError:
        return False
    return True


def hash_code(folder: Path) -> str:
    """Of every module: two machines with the same version may have different code."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        total.update(str(path.relative_to(folder)).encode())
        total.update(path.read_bytes())
    return total.hexdigest()[:12]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _num_gpus() -> int | None:
    try:
        import pynvml

        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount())
    except Exception:
        return None


# -- meeting -----------------------------------------------------------------------------------------------------------


def _lead(_: int, size: int, master: tuple[str, int], deadline: float) -> dict[str, Any]:
    """The master collects all addresses, sends them to everyone, and waits until all have tried each other."""
    server = _listen(master[1])
    lines: dict[int, _Line] = {}
    offsets: dict[str, float] = {}
    places: dict[str, list[Any]] = {}
    with server:
        while len(lines) < size - 1 and time.monotonic() < deadline:
            server.settimeout(max(0.01, deadline - time.monotonic()))
            with contextlib.suppress(TimeoutError):
                connection, (address, *_) = server.accept()
                line = _Line(connection, deadline)
                hello = line.read()
                lines[int(hello["rank"])] = line
                places[str(hello["rank"])] = [address, int(hello["port"])]
                offsets[str(hello["rank"])] = line.ask_clock()
        for line in lines.values():
            line.write({"places": places})
        unreachable = _try_to_reach(places, 0)
        for line in lines.values():
            with contextlib.suppress(OSError, ValueError):
                line.read()  # it has tried all
    return {"heard": sorted(lines), "clock_offsets_s": offsets, "unreachable": unreachable}


def _join(rank: int, _: int, master: tuple[str, int], deadline: float) -> dict[str, Any]:
    line = _Line(_connect(master, deadline), deadline + 10)
    with _listen(0) as own:
        threading.Thread(target=_welcome, args=(own,), daemon=True).start()
        line.write({"rank": rank, "port": own.getsockname()[1]})
        line.read()
        line.write({"time": time.time()})
        unreachable = _try_to_reach(line.read()["places"], rank)
        line.write({"done": True})
    return {"unreachable": unreachable}


def _listen(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


class _Line:
    """A connection that carries one JSON object per line."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        connection.settimeout(max(1.0, deadline - time.monotonic()))
        self._file = connection.makefile("rw", encoding="utf-8")

    def write(self, value: dict[str, Any]) -> None:
        self._file.write(json.dumps(value) + "\n")
        self._file.flush()

    def read(self) -> dict[str, Any]:
        text = self._file.readline(1 << 20)
        if not text:
            raise ConnectionError("the other side closed the connection")
        value: dict[str, Any] = json.loads(text)
        return value

    def ask_clock(self) -> float:
        before = time.time()
        self.write({"clock": True})
        theirs = float(self.read()["time"])
        return theirs - (before + time.time()) / 2


def _connect(place: tuple[str, int], deadline: float) -> socket.socket:
    """The master may start later than this process; without any route to it, give up earlier."""
    begin = time.monotonic()
    while True:
        try:
            return socket.create_connection(place, timeout=5)
        except OSError as error:
            has_no_way = error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH)
            if time.monotonic() > (begin + _NO_WAY_S if has_no_way else deadline):
                raise
            time.sleep(0.2)


def _welcome(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            server.accept()[0].close()


def _try_to_reach(places: dict[str, list[Any]], own_rank: int) -> list[int]:
    unreachable = []
    for rank, (address, port) in places.items():
        if int(rank) != own_rank:
            try:
                socket.create_connection((address, port), timeout=3).close()
            except OSError:
                unreachable.append(int(rank))
    return unreachable


if __name__ == "__main__":
    sys.exit(main(sys.argv))
