"""Rendezvous on one machine that no other machine can reach.

`python -m trainmark.worker.torch.loopback ARGUMENTS` is torchrun for the processes of one machine. Its own store,
over which processes find each other, listens on all interfaces: anybody on the network could join a run, or end it.
This one listens on the loopback address only. The processes of a user's own script use it too.
"""

from __future__ import annotations

import os
import socket
import sys
from datetime import timedelta

from torch._C._distributed_c10d import PrefixStore, TCPStore  # as torch.distributed has them, but with types
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    rendezvous_handler_registry,
)
from torch.distributed.run import main as run_torchrun

_ADDRESS = "127.0.0.1"
_NAME = "trainmark-loopback"
_HAS_STORE = "TORCHELASTIC_USE_AGENT_STORE"
_TIMEOUT = timedelta(minutes=10)


class LoopbackRendezvous(RendezvousHandler):
    """Of one agent, which therefore waits for nobody."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._store, self._port = listen()

    @property
    def use_agent_store(self) -> bool:
        """The processes are clients of the agent's store and open none of their own."""
        return True

    def get_backend(self) -> str:
        return _NAME

    def next_rendezvous(self) -> RendezvousInfo:
        where = RendezvousStoreInfo(_ADDRESS, self._port)
        return RendezvousInfo(PrefixStore(self._run_id, self._store), 0, 1, where)

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        pass

    def num_nodes_waiting(self) -> int:
        return 0

    def get_run_id(self) -> str:
        return self._run_id

    def shutdown(self) -> bool:
        return True


def listen(port: int = 0) -> tuple[TCPStore, int]:
    """The store takes over a socket that is already bound: by itself it binds to every address. 0: any free port."""
    server = socket.create_server((_ADDRESS, port), backlog=1024)
    port = server.getsockname()[1]
    store = TCPStore(
        _ADDRESS,
        port,
        is_master=True,
        timeout=_TIMEOUT,
        wait_for_workers=False,
        master_listen_fd=server.detach(),
    )
    return store, port


def is_loopback(address: str) -> bool:
    return address == "localhost" or address.startswith("127.")


def _create(parameters: RendezvousParameters) -> LoopbackRendezvous:
    return LoopbackRendezvous(parameters.run_id)


_served: list[TCPStore] = []
"""Until the process ends, its store is there for the others."""


def serve_processes() -> None:
    """For a process of a run on this machine: where its launcher has no store (mpirun), rank 0 makes one.

    torch would make one that listens on all interfaces. With the variable, every rank is a client.
    """
    use_loopback_interface()
    if os.environ.get(_HAS_STORE) == "True" or "MASTER_PORT" not in os.environ:
        return
    if os.environ.get("RANK") == "0":
        _served.append(listen(int(os.environ["MASTER_PORT"]))[0])
    os.environ[_HAS_STORE] = "True"


def use_loopback_interface() -> None:
    """For gloo, which otherwise listens on the address of the host name."""
    if any(name == "lo" for _, name in socket.if_nameindex()):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def main(arguments: list[str]) -> None:
    rendezvous_handler_registry.register(_NAME, _create)
    use_loopback_interface()
    run_torchrun([f"--rdzv-backend={_NAME}", f"--rdzv-endpoint={_ADDRESS}:0", "--nnodes=1", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
