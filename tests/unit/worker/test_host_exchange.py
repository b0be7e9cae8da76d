"""Real processes that agree over connections of their own."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainmark.worker import host_exchange
from trainmark.worker.host_exchange import HostRanks, connect

NUM = 3


def join(rank: int, folder: Path) -> HostRanks:
    """The store is a folder."""

    def put(name: str, value: str) -> None:
        part = folder / "part"
        part.write_text(value)
        part.rename(folder / name.replace("/", "-"))

    def get(name: str) -> str:
        path = folder / name.replace("/", "-")
        while not path.exists():
            time.sleep(0.01)
        return path.read_text()

    connections = connect(rank=rank, world_size=NUM, host="127.0.0.1", put=put, get=get)
    return HostRanks(connections, rank=rank, world_size=NUM)


def in_processes(work: Callable[[int, Path], Any], folder: Path) -> list[Any]:
    with ProcessPoolExecutor(NUM, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(work, rank, folder) for rank in range(NUM)]
        return [part.result(timeout=60) for part in parts]


def exchange_all(rank: int, folder: Path) -> tuple[Any, ...]:
    ranks = join(rank, folder)
    large = ranks.gather_on_first(np.zeros(20_000_000, np.uint8))
    begin = time.perf_counter()
    for _ in range(100):
        agreed = ranks.agree(rank, (7 * rank, 5))
    each_s = (time.perf_counter() - begin) / 100
    found = ranks.gather({"rank": rank}), ranks.broadcast(f"of {rank}"), ranks.maximum([rank, -rank]), agreed
    ranks.close()
    return found, [len(part) for part in large], each_s < 0.05


def test_every_rank_gets_the_same(tmp_path: Path) -> None:
    everything = [{"rank": 0}, {"rank": 1}, {"rank": 2}], "of 0", [2.0, 0.0], (2, [0, 5])
    found = in_processes(exchange_all, tmp_path)
    assert [part[0] for part in found] == [everything] * NUM
    assert [part[1] for part in found] == [[20_000_000] * NUM, [], []]
    assert all(part[2] for part in found), "it is part of every block of steps"


def wait_for_first(rank: int, folder: Path) -> int:
    """A signal arrives while a rank waits, and its other threads run on."""
    came: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    ranks = join(rank, folder)
    if rank > 0:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    ranks.run_on_first(lambda: time.sleep(1.5))
    ranks.close()
    return len(came)


def test_a_signal_does_not_end_the_wait(tmp_path: Path) -> None:
    assert in_processes(wait_for_first, tmp_path) == [0, 1, 1]


def lose_the_last(rank: int, folder: Path) -> str:
    ranks = join(rank, folder)
    if rank == 2:
        ranks.close()
        return ""
    try:
        ranks.gather(rank)
    except ConnectionError as error:
        ranks.close()
        return str(error)
    return "nothing happened"


def test_a_lost_rank_is_noticed_by_all(tmp_path: Path) -> None:
    lost = ["connection to rank 2 was lost", "connection to rank 0 was lost", ""]
    assert in_processes(lose_the_last, tmp_path) == lost


def test_strangers_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them says nothing, another one something else."""
    monkeypatch.setattr(host_exchange, "_GREETING_S", 1.0)
    published: list[str] = []
    is_published = threading.Event()

    def put(_: str, value: str) -> None:
        published.append(value)
        is_published.set()

    def join_second() -> list[Any]:
        is_published.wait()
        address = ("127.0.0.1", int(published[0].split()[0]))
        with socket.create_connection(address), socket.create_connection(address) as stranger:
            stranger.sendall(b"\0\0\0\4GET ")
            return connect(rank=1, world_size=2, host="127.0.0.1", put=put, get=lambda _: published[0])

    second: list[Any] = []
    thread = threading.Thread(target=lambda: second.extend(join_second()))
    thread.start()
    (first,) = connect(rank=0, world_size=2, host="127.0.0.1", put=put, get=lambda _: "")
    thread.join()
    HostRanks(second, rank=1, world_size=2).gather_on_first(5)
    assert HostRanks([first], rank=0, world_size=2).gather_on_first(4) == [4, 5]
    first.close()
    second[0].close()


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("trap",)


def test_nobody_runs_code_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ours, theirs = Pipe()
    theirs.send_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match=r"decode|Expecting"):
        HostRanks([ours], rank=0, world_size=2).gather_on_first(0)
    assert not Path("trap").exists()
    ours.close()
    theirs.close()
