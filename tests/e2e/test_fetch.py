"""`trainmark data fetch` as a person runs it: a process of its own, against a server, killed and started again."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from making import heed_interrupts
from schema_checking import check_document
from serving import Served, serve
from trainmark.datasets.formats import MakeRequest, make_dataset
from waiting import wait_until

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def start(*argv: str, cwd: Path) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if key.lower() not in PROXIES}
    source = str(Path(__file__).parents[2] / "src")
    return subprocess.Popen(
        [sys.executable, "-m", "trainmark.cli.main", "data", *argv],
        cwd=cwd,
        env={**environment, "PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )


def trainmark(*argv: str, cwd: Path) -> tuple[int, str, str]:
    process = start(*argv, cwd=cwd)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    return process.returncode, out, err


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("made")
    make_dataset("imagenet", folder / "set", MakeRequest(num_samples=8, num_classes=2, val_fraction=0.25))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(folder / "set", arcname=".")
    return buffer.getvalue()


def test_from_parts_to_a_verified_data_set(tmp_path: Path, archive: bytes) -> None:
    third = len(archive) // 3
    pieces = [archive[:third], archive[third : 2 * third], archive[2 * third :]]
    files = {f"/set.tar.gz.{i:03d}": Served(data=piece) for i, piece in enumerate(pieces)}
    digest = hashlib.sha256(archive).hexdigest()
    with serve(files) as server:
        urls = [server.url(path) for path in files]
        argv = ["fetch", *urls, "--output", "down/", "--sha256", digest, "--unpack", "set", "--json"]
        code, out, err = trainmark(*argv, cwd=tmp_path)
        assert code == 0, err
        report = json.loads(out)
        check_document("data-fetch", report)
        assert (report["output"], report["num_parts"], report["sha256"]) == ("down/set.tar.gz", 3, digest)
        assert report["num_files"] == 9
        shutil.rmtree(tmp_path / "set")
        code, out, err = trainmark(*argv[:-1], cwd=tmp_path)  # the file is recognised, and unpacked again
        assert (code, "sha256 matches" in out) == (0, True)
    code, _, err = trainmark("check", "imagenet", "set", cwd=tmp_path)
    assert (code, "all files match manifest.sha256" in err) == (0, True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_and_started_again(tmp_path: Path, number: signal.Signals) -> None:
    data = random.Random(2).randbytes(4_000_000)
    served = Served(data=data, pause_s=0.1, block_bytes=50_000)
    with serve({"/big.bin": served}) as server:
        argv = ["fetch", server.url("/big.bin"), "--output", "big.bin", "--connections", "2"]
        process = start(*argv, cwd=tmp_path)
        state = tmp_path / "big.bin.partial.json"
        wait_until(
            lambda: state.exists() and sum(json.loads(state.read_text())["parts"][0]["done"]) > 200_000,
            what="200 kB have arrived",
        )
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
        if number != signal.SIGKILL:
            assert (process.returncode, "run the same command again" in err) == (128 + number, True)
        assert not (tmp_path / "big.bin").exists()
        num_done = sum(json.loads(state.read_text())["parts"][0]["done"])
        assert 200_000 < num_done < len(data)
        server.asked.clear()
        served.pause_s = 0.0
        code, _, err = trainmark(*argv, "--sha256", hashlib.sha256(data).hexdigest(), cwd=tmp_path)
        assert code == 0, err
        assert min(server.starts()) > 0
    assert [path.name for path in tmp_path.iterdir()] == ["big.bin"]


def test_bad_input_is_one_message_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with serve({"/page": Served(data=b"<html>please log in</html>" * 40)}) as server:
        page, none = server.url("/page"), server.url("/none?key=s3cret")
        cases = [
            ([none, "--output", "a"], "404"),
            (["file:///etc/passwd", "--output", "a"], "file:// is not supported"),
            ([page, "--output", "there"], "there exists"),
            ([page, "--output", "a", "--sha256", "0" * 64], "wrong checksum"),
            ([page, "--output", "a", "--sha256", "12"], "invalid sha256 checksum"),
            ([page, "--output", "a", "--connections", "0"], "--connections: must be an integer from 1 to 64"),
            ([page, "--output", "b", "--unpack", "."], "not empty"),
            ([page, "--output", "b", "--unpack", "out"], "not an archive"),
        ]
        for argv, says in cases:
            code, out, err = trainmark("fetch", *argv, cwd=tmp_path)
            assert (code, out, err.count("error:"), says in err, "hint:" in err) == (2, "", 1, True, True), err
            assert "s3cret" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.rejected", "b", "there"]
    assert (tmp_path / "there").read_text() == "mine"


def test_an_archive_whose_second_part_is_a_page_is_not_unpacked_in_part(tmp_path: Path) -> None:
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as file:
        for name in ("train/a", "train/b"):
            file.addfile(tarfile.TarInfo(name))
    page = b"<html>please log in</html>" * 40
    with serve({"/set.tar.0": Served(data=tar.getvalue()[:512]), "/set.tar.1": Served(data=page)}) as server:
        urls = [server.url("/set.tar.0"), server.url("/set.tar.1")]
        code, out, err = trainmark("fetch", *urls, "--output", "set.tar", "--unpack", "set", cwd=tmp_path)
    assert (code, out, err.count("error:"), "damaged" in err, "hint:" in err) == (2, "", 1, True, True), err
    assert [path.name for path in tmp_path.iterdir()] == ["set.tar"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    make += f" -addext subjectAltName=DNS:localhost -keyout {key} -out {certificate}"
    subprocess.run(make.split(), capture_output=True, check=True)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    class Quiet(HTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # the client hangs up in the middle of the greeting, which is what is tested

    server = Quiet(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"https://localhost:{server.server_address[1]}/x"
        code, _, err = trainmark("fetch", url, "--output", "x", cwd=tmp_path)
        assert (code, "certificate is not trusted" in err) == (2, True), err
    finally:
        server.shutdown()
        server.server_close()
    assert not (tmp_path / "x").exists()
