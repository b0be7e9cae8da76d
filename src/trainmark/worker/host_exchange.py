"""Agreement between the processes of a run over connections of our own, for Paddle and JAX.

Rank 0 listens; every other rank keeps one connection to it. A rank may wait for another for hours: one computes the
metric of an evaluation or writes a checkpoint to slow storage meanwhile. A rank that ended closes its connection, which
the others notice at once; the supervisor ends a run that hangs.

An exchange takes about 0.1 ms on one machine. Paddle's gloo gives up after 30 s, and its store, which waits, takes
0.18 s for each exchange.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Any, TypeVar

from trainmark.worker.parcels import pack, unpack
from trainmark.worker.ranks import Ranks

T = TypeVar("T")

_KEY = "trainmark/host_exchange"
_GREETING_S = 10.0
"""Who connects and then stays silent is not one of us: only the ranks know the port and the key."""


class HostRanks(Ranks):
    """Every exchange goes over rank 0, which sends to all what it received from all."""

    def __init__(self, connections: Sequence[Connection], *, rank: int, world_size: int) -> None:
        """On rank 0 a connection to each of the others, in the order of ranks; on another rank the one to rank 0."""
        super().__init__(rank=rank, world_size=world_size)
        self._connections = connections

    def maximum(self, values: Sequence[float]) -> list[float]:
        return [max(column) for column in zip(*self.gather(list(values)), strict=True)]

    def gather(self, part: T) -> list[T]:
        return self.broadcast(self.gather_on_first(part))

    def gather_on_first(self, part: T) -> list[T]:
        if self.rank == 0:
            return [part, *(self._receive(rank) for rank in range(1, self.world_size))]
        self._send(0, pack(part))
        return []

    def broadcast(self, value: T) -> T:
        if self.rank > 0:
            received: T = self._receive(0)
            return received
        data = pack(value)
        for rank in range(1, self.world_size):
            self._send(rank, data)
        return value

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _send(self, rank: int, data: bytes) -> None:
        try:
            self._to(rank).send_bytes(data)
        except OSError as error:
            raise _lost(rank) from error

    def _receive(self, rank: int) -> Any:
        try:
            data = self._to(rank).recv_bytes()
        except (EOFError, OSError) as error:
            raise _lost(rank) from error
        return unpack(data)

    def _to(self, rank: int) -> Connection:
        return self._connections[rank - 1 if self.rank == 0 else 0]


def connect(
    *, rank: int, world_size: int, host: str, put: Callable[[str, str], None], get: Callable[[str], str]
) -> list[Connection]:
    """The connections for `HostRanks`. `put` and `get`, which waits, are those of a store that all ranks share.

    `host` is the address at which the other ranks reach rank 0. Only who knows the key in the store can connect.
    """
    if rank > 0:
        port, key = get(_KEY).split()
        connection = Client((host, int(port)), family="AF_INET", authkey=bytes.fromhex(key))
        _tune(connection)
        connection.send_bytes(str(rank).encode())
        return [connection]
    key = secrets.token_hex(32)
    own = host if host.startswith("127.") else ""  # a name that others use may not be one of this machine
    with Listener((own, 0), family="AF_INET", backlog=world_size) as listener:
        put(_KEY, f"{listener.address[1]} {key}")
        found: dict[int, Connection] = {}
        while len(found) < world_size - 1:
            with contextlib.suppress(AuthenticationError, EOFError, OSError):  # a stranger's, such as a port scanner's
                connection = listener.accept()
                found[_greet(connection, bytes.fromhex(key))] = connection
    return [found[number] for number in range(1, world_size)]


def _greet(connection: Connection, key: bytes) -> int:
    """The rank at the other end, which has shown that it knows the key."""
    _limit_waiting(connection, _GREETING_S)
    deliver_challenge(connection, key)
    answer_challenge(connection, key)
    rank = int(connection.recv_bytes())
    _limit_waiting(connection, 0)
    _tune(connection)
    return rank


def _limit_waiting(connection: Connection, seconds: float) -> None:
    """0: no limit. Later reads fail with an OSError when it is over."""
    with _socket_of(connection) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(seconds), 0))


def _tune(connection: Connection) -> None:
    """Send at once. Keep alive: a firewall may forget a connection that is silent during a long evaluation."""
    with _socket_of(connection) as opened:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


@contextlib.contextmanager
def _socket_of(connection: Connection) -> Iterator[socket.socket]:
    opened = socket.socket(fileno=connection.fileno())
    try:
        yield opened
    finally:
        opened.detach()  # it stays the connection's


def _lost(rank: int) -> ConnectionError:
    return ConnectionError(f"connection to rank {rank} was lost")
