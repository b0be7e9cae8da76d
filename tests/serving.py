"""A real HTTP server for tests, on this machine, that can be as unreliable as real ones are."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(kw_only=True)
class Served:
    data: bytes = b""
    etag: str | None = '"one"'
    last_modified: str | None = "Mon, 01 Jan 2024 00:00:00 GMT"
    has_ranges: bool = True
    states_length: bool = True
    statuses: list[int] = field(default_factory=list)
    """Answered one after the other before the file is."""

    retry_after: str | None = None
    cut_after: int | None = None
    """Bytes of each answer after which the connection is cut."""

    num_cuts: int = 10**9
    pause_s: float = 0.0
    """Before each block."""

    block_bytes: int = 16_384
    location: str | None = None
    authorization: str | None = None


@dataclass
class FileServer:
    files: dict[str, Served]
    port: int = 0
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path with query, and headers in lower case."""

    most_at_once: int = 0
    num_open: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def starts(self) -> list[int]:
        """Where the ranges began that were asked for, the first look of one byte left out."""
        ranges = [headers.get("range", "") for _, headers in self.asked]
        found = [re.fullmatch(r"bytes=(\d+)-(\d+)", text) for text in ranges]
        return [int(match[1]) for match in found if match and match[0] != "bytes=0-0"]


@contextmanager
def serve(files: dict[str, Served]) -> Iterator[FileServer]:
    shared = FileServer(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with shared.lock:
                shared.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
                weight = 0 if self.headers.get("Range") == "bytes=0-0" else 1  # a first look, which is hung up on
                shared.num_open += weight
                shared.most_at_once = max(shared.most_at_once, shared.num_open)
            try:
                _answer(self, shared)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the client has heard enough
            finally:
                with shared.lock:
                    shared.num_open -= weight

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    shared.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield shared
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(handler: BaseHTTPRequestHandler, shared: FileServer) -> None:
    served = shared.files.get(handler.path.split("?")[0])
    if served is None:
        handler.send_error(404)
        return
    if served.authorization is not None and handler.headers.get("Authorization") != served.authorization:
        handler.send_error(401)
        return
    with shared.lock:
        status = served.statuses.pop(0) if served.statuses else 200
    if served.location is not None or status != 200:
        handler.send_response(302 if served.location is not None else status)
        if served.location is not None:
            handler.send_header("Location", served.location)
        if served.retry_after is not None:
            handler.send_header("Retry-After", served.retry_after)
        handler.end_headers()
        return
    # Read once: a test may change them while this answer is sent, and the answer must be of one version.
    etag, cut_after, data = served.etag, served.cut_after, served.data
    body, total = data, len(data)
    wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", handler.headers.get("Range", ""))
    is_range = wanted is not None and served.has_ranges
    if is_range and wanted is not None:
        start, end = int(wanted[1]), min(int(wanted[2]) + 1, total)
        if start >= total:
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{total}")
            handler.end_headers()
            return
        body = data[start:end]
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes {start}-{end - 1}/{total}")
    else:
        handler.send_response(200)
    if etag is not None:
        handler.send_header("ETag", etag)
    if served.last_modified is not None:
        handler.send_header("Last-Modified", served.last_modified)
    if served.states_length:
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    _send(handler, shared, served, body, cut_after)


def _send(
    handler: BaseHTTPRequestHandler, shared: FileServer, served: Served, body: bytes, cut_after: int | None
) -> None:
    is_cut = False
    with shared.lock:
        if cut_after is not None and len(body) > cut_after and served.num_cuts > 0:
            served.num_cuts -= 1
            is_cut = True
    if is_cut:
        body = body[:cut_after]
    for start in range(0, len(body), served.block_bytes):
        if served.pause_s:
            time.sleep(served.pause_s)
        handler.wfile.write(body[start : start + served.block_bytes])
