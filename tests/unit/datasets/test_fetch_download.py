"""Downloads against a real server that cuts, stalls, changes and refuses."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from serving import Served, serve
from trainmark.datasets.fetch import download as download_module
from trainmark.datasets.fetch import fetch as fetch_module
from trainmark.datasets.fetch.download import Effort
from trainmark.datasets.fetch.fetch import FetchReport, FetchRequest, fetch
from trainmark.datasets.fetch.request import Address, Checksum, hide_secrets, name_file, parse_address, parse_checksum
from trainmark.errors import DataError

DATA = random.Random(1).randbytes(300_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
EFFORT = Effort(num_connections=3, num_tries=4, pause_s=0.01, timeout_s=5.0, chunk_bytes=64_000)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@dataclass
class Talk:
    said: list[str] = field(default_factory=list)
    stages: list[tuple[str, int, int | None]] = field(default_factory=list)


def get(
    urls: str | list[str],
    output: Path | str,
    *,
    sha256: str | None = None,
    effort: Effort = EFFORT,
    talk: Talk | None = None,
    on_stage: Callable[[str, int, int | None], None] | None = None,
) -> FetchReport:
    talk = talk or Talk()
    request = FetchRequest(
        urls=[urls] if isinstance(urls, str) else urls,
        output=str(output),
        effort=effort,
        checksum=None if sha256 is None else parse_checksum("sha256", sha256),
    )
    record = on_stage or (lambda name, done, total: talk.stages.append((name, done, total)))
    return fetch(request, on_stage=record, say=talk.said.append)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("has_ranges", [True, False])
@pytest.mark.parametrize("states_length", [True, False])
def test_a_file_comes_whole(tmp_path: Path, has_ranges: bool, states_length: bool) -> None:
    talk = Talk()
    with serve({"/a.tar": Served(data=DATA, has_ranges=has_ranges, states_length=states_length)}) as server:
        report = get(server.url("/a.tar"), tmp_path / "a.tar", sha256=SHA256.upper(), talk=talk)
        assert (tmp_path / "a.tar").read_bytes() == DATA
        assert sorted(server.starts()) == ([0, 64_000, 128_000, 192_000, 256_000] if has_ranges else [])
        assert all(headers["user-agent"].startswith("trainmark/") for _, headers in server.asked)
    assert (report.num_bytes, report.sha256, report.checked, report.was_there) == (300_000, SHA256, "sha256", False)
    assert names(tmp_path) == ["a.tar"]
    total = 300_000 if has_ranges or states_length else None
    assert [stage for stage in talk.stages if stage[0] == "downloading"][-1] == ("downloading", 300_000, total)


def test_an_empty_file(tmp_path: Path) -> None:
    with serve({"/e": Served()}) as server:
        assert get(server.url("/e"), tmp_path / "e").num_bytes == 0


def test_ranges_side_by_side(tmp_path: Path) -> None:
    with serve({"/a": Served(data=DATA, pause_s=0.02)}) as server:
        get(server.url("/a"), tmp_path / "a")
        assert server.most_at_once >= 3


def test_parts_side_by_side_are_joined_in_the_given_order(tmp_path: Path) -> None:
    parts = [DATA[:100_000], DATA[100_000:170_000], b"", DATA[170_000:]]
    files = {f"/d.tar.gz.{i:02d}": Served(data=part, has_ranges=False, pause_s=0.02) for i, part in enumerate(parts)}
    with serve(files) as server:
        report = get([server.url(path) for path in files], tmp_path, sha256=SHA256)
        assert server.most_at_once >= 3
    assert report.output == tmp_path / "d.tar.gz"
    assert report.output.read_bytes() == DATA
    assert names(tmp_path) == ["d.tar.gz"]


def test_the_order_of_the_parts_matters(tmp_path: Path) -> None:
    with serve({"/0": Served(data=DATA[:9]), "/1": Served(data=DATA[9:])}) as server, pytest.raises(DataError):
        get([server.url("/1"), server.url("/0")], tmp_path / "a", sha256=SHA256)


def test_connections_that_are_cut_go_on_where_they_were(tmp_path: Path) -> None:
    with serve({"/a": Served(data=DATA, cut_after=10_000)}) as server:
        get(server.url("/a"), tmp_path / "a", sha256=SHA256)
        assert {0, 10_000, 20_000, 64_000, 74_000} <= set(server.starts())


def test_without_ranges_a_cut_starts_again_and_again_gives_up(tmp_path: Path) -> None:
    served = Served(data=DATA, has_ranges=False, cut_after=50_000, num_cuts=2)
    with serve({"/a": served}) as server:
        get(server.url("/a"), tmp_path / "a", sha256=SHA256)
        served.num_cuts = 99
        with pytest.raises(DataError, match="4 attempts"):
            get(server.url("/a"), tmp_path / "b")
    assert names(tmp_path) == ["a", "b.partial", "b.partial.json"]


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_busy_servers_are_asked_again(tmp_path: Path, status: int) -> None:
    with serve({"/a": Served(data=DATA, statuses=[status, status])}) as server:
        get(server.url("/a"), tmp_path / "a", sha256=SHA256)


def test_retry_after_is_heeded(tmp_path: Path) -> None:
    with serve({"/a": Served(data=b"x", statuses=[503], retry_after="1")}) as server:
        started = time.monotonic()
        get(server.url("/a"), tmp_path / "a")
        assert time.monotonic() - started >= 1.0


def test_a_server_that_stays_busy(tmp_path: Path) -> None:
    with serve({"/a": Served(statuses=[503] * 9)}) as server, pytest.raises(DataError) as caught:
        get(server.url("/a"), tmp_path / "a")
    assert "503" in caught.value.why
    assert "4 attempts" in caught.value.why


def test_a_silent_server_times_out(tmp_path: Path) -> None:
    effort = Effort(num_tries=2, pause_s=0.01, timeout_s=0.2)
    with serve({"/a": Served(data=DATA, pause_s=1.0)}) as server, pytest.raises(DataError, match="timed out"):
        get(server.url("/a"), tmp_path / "a", effort=effort)


def interrupt(url: str | list[str], output: Path, *, after: int, sha256: str | None = None) -> None:
    def stop(name: str, done: int, total: int | None) -> None:
        if name == "downloading" and done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(url, output, on_stage=stop, sha256=sha256)


def test_an_interrupted_download_goes_on(tmp_path: Path) -> None:
    served = Served(data=DATA, pause_s=0.05)
    with serve({"/a": served}) as server:
        interrupt(server.url("/a?token=first"), tmp_path / "a", after=60_000)
        assert names(tmp_path) == ["a.partial", "a.partial.json"]
        state = json.loads((tmp_path / "a.partial.json").read_text())
        num_before = sum(state["parts"][0]["done"])
        assert 60_000 <= num_before < 300_000
        assert "token" not in (tmp_path / "a.partial.json").read_text()
        server.asked.clear()
        served.pause_s = 0.0
        get(server.url("/a?token=second"), tmp_path / "a", sha256=SHA256)
        expected = {64_000 * i + done for i, done in enumerate(state["parts"][0]["done"])}
        assert set(server.starts()) <= expected
        assert 0 not in server.starts()
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("change", ["etag", "last_modified", "size"])
def test_a_file_that_changed_meanwhile_starts_anew(tmp_path: Path, change: str) -> None:
    talk = Talk()
    served = Served(data=DATA, pause_s=0.05, etag=None if change == "last_modified" else '"one"')
    with serve({"/a": served}) as server:
        interrupt(server.url("/a"), tmp_path / "a", after=60_000)
        new = DATA[::-1] + (b"more" if change == "size" else b"")
        served.data, served.pause_s = new, 0.0
        if change == "etag":
            served.etag = '"two"'
        elif change == "last_modified":
            served.last_modified = "Tue, 02 Jan 2024 00:00:00 GMT"
        get(server.url("/a"), tmp_path / "a", talk=talk)
    assert (tmp_path / "a").read_bytes() == new
    assert "restarting" in talk.said[0]


def test_only_the_part_that_changed_starts_anew(tmp_path: Path) -> None:
    files = {"/x.0": Served(data=DATA, pause_s=0.01), "/x.1": Served(data=DATA, pause_s=0.1)}
    with serve(files) as server:
        urls = [server.url(path) for path in files]
        interrupt(urls, tmp_path / "x", after=310_000)
        done = [sum(part["done"]) for part in json.loads((tmp_path / "x.partial.json").read_text())["parts"]]
        assert done[0] == 300_000
        files["/x.1"].data, files["/x.1"].etag, files["/x.1"].pause_s = b"new", '"two"', 0.0
        server.asked.clear()
        get(urls, tmp_path / "x")
        assert [headers["range"] for path, headers in server.asked if path == "/x.0"] == ["bytes=0-0"]
    assert (tmp_path / "x").read_bytes() == DATA + b"new"


def test_a_change_in_the_middle_of_a_download(tmp_path: Path) -> None:
    served = Served(data=DATA, pause_s=0.05)
    with serve({"/a": served}) as server:

        def change(name: str, done: int, total: int | None) -> None:
            if done > 50_000 and served.etag == '"one"':
                served.data, served.etag, served.pause_s = DATA[::-1], '"two"', 0.0

        get(server.url("/a"), tmp_path / "a", on_stage=change, effort=replace(EFFORT, num_connections=1))
    assert (tmp_path / "a").read_bytes() == DATA[::-1]


def test_no_version_and_no_checksum_never_mixes_two_files(tmp_path: Path) -> None:
    served = Served(data=DATA, pause_s=0.05, etag=None, last_modified=None)
    with serve({"/a": served}) as server:
        interrupt(server.url("/a"), tmp_path / "a", after=60_000)
        served.data, served.pause_s = DATA[::-1], 0.0
        get(server.url("/a"), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == DATA[::-1]


@pytest.mark.parametrize("damage", ["no file", "short file", "no json", "nonsense", "other chunks"])
def test_a_damaged_state_starts_anew(tmp_path: Path, damage: str) -> None:
    served = Served(data=DATA, pause_s=0.05)
    state = tmp_path / "a.partial.json"
    with serve({"/a": served}) as server:
        interrupt(server.url("/a"), tmp_path / "a", after=60_000)
        if damage == "no file":
            (tmp_path / "a.partial").unlink()
        elif damage == "short file":
            (tmp_path / "a.partial").write_bytes(b"x")
        elif damage == "no json":
            state.unlink()
        elif damage == "nonsense":
            state.write_text("{")
        else:
            state.write_text(state.read_text().replace("64000", "32000"))
        served.pause_s = 0.0
        get(server.url("/a"), tmp_path / "a", sha256=SHA256)


def test_an_interrupted_join_goes_on_without_asking(tmp_path: Path) -> None:
    parts = [DATA[:100_000], DATA[100_000:200_000], DATA[200_000:]]
    files = {f"/x.{i}": Served(data=part) for i, part in enumerate(parts)}

    def stop(name: str, done: int, total: int | None) -> None:
        if name == "joining":
            raise KeyboardInterrupt

    with serve(files) as server:
        urls = [server.url(path) for path in files]
        with pytest.raises(KeyboardInterrupt):
            get(urls, tmp_path / "x", on_stage=stop)
        assert names(tmp_path) == ["x.partial", "x.partial.2", "x.partial.json"]
        with (tmp_path / "x.partial").open("ab") as file:
            file.write(b"half of the next part")
        server.asked.clear()
        get(urls, tmp_path / "x", sha256=SHA256)
        assert server.asked == []
    assert names(tmp_path) == ["x"]


def interrupt_after_the_download(urls: str | list[str], output: Path, *, stage: str) -> None:
    def stop(name: str, done: int, total: int | None) -> None:
        if name == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(urls, output, on_stage=stop)


@pytest.mark.parametrize("has_ranges", [True, False])
@pytest.mark.parametrize("change", ["etag", "size", "no version"])
def test_a_complete_download_is_stale_where_the_file_changed(tmp_path: Path, change: str, has_ranges: bool) -> None:
    served = Served(data=DATA, has_ranges=has_ranges)
    if change == "no version":
        served.etag = served.last_modified = None
    with serve({"/a": served}) as server:
        interrupt_after_the_download(server.url("/a?id=1"), tmp_path / "a", stage="checksum")
        served.data = DATA[::-1] + (b"more" if change == "size" else b"")
        served.etag = '"two"' if change == "etag" else served.etag
        get(server.url("/a?id=2"), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == served.data
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("stage", ["joining", "checksum"])
@pytest.mark.parametrize("changed", [None, "/x.0", "/x.1", "/x.2"])
def test_joined_parts_are_asked_for_once_more(tmp_path: Path, stage: str, changed: str | None) -> None:
    files = {f"/x.{i}": Served(data=DATA) for i in range(3)}
    with serve(files) as server:
        urls = [server.url(path) for path in files]
        interrupt_after_the_download(urls, tmp_path / "x", stage=stage)
        if changed is not None:
            files[changed].data, files[changed].etag = b"new", '"two"'
        server.asked.clear()
        get(urls, tmp_path / "x")
        assert {path for path, _ in server.asked} == set(files)
        assert changed is not None or server.starts() == []
    assert (tmp_path / "x").read_bytes() == b"".join(served.data for served in files.values())
    assert names(tmp_path) == ["x"]


def test_a_wrong_checksum_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    with serve({"/a": Served(data=DATA)}) as server:
        with pytest.raises(DataError, match="wrong checksum") as caught:
            get(server.url("/a"), tmp_path / "a", sha256="0" * 64)
        assert SHA256 in caught.value.why
        assert "a.rejected" in caught.value.hint
        assert names(tmp_path) == ["a.rejected"]
        get(server.url("/a"), tmp_path / "a", sha256=SHA256)
    assert names(tmp_path) == ["a", "a.rejected"]


def test_md5(tmp_path: Path) -> None:
    digits = hashlib.md5(DATA).hexdigest()
    with serve({"/a": Served(data=DATA)}) as server:
        checksum = Checksum(algorithm="md5", digits=digits)
        request = FetchRequest(urls=[server.url("/a")], output=str(tmp_path), checksum=checksum, effort=EFFORT)
        report = fetch(request, on_stage=lambda *_: None, say=print)
    assert (report.output, report.checked, report.sha256) == (tmp_path / "a", "md5", SHA256)


def test_what_is_there_is_kept_and_recognised_by_its_checksum(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    with serve({"/a": Served(data=b"other")}) as server:
        with pytest.raises(DataError, match="exists") as caught:
            get(server.url("/a"), tmp_path / "a")
        assert "--sha256" in caught.value.hint
        with pytest.raises(DataError, match="a different file"):
            get(server.url("/a"), tmp_path / "a", sha256="0" * 64)
        assert get(server.url("/a"), tmp_path / "a", sha256=SHA256).was_there
        assert server.asked == []
    assert (tmp_path / "a").read_bytes() == DATA


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with serve({"/a": Served(data=DATA, pause_s=0.1)}) as server:
        first = threading.Thread(target=get, args=(server.url("/a"), tmp_path / "a"))
        first.start()
        while not (tmp_path / "a.partial.json").exists():
            time.sleep(0.01)
        with pytest.raises(DataError, match="another process"):
            get(server.url("/a"), tmp_path / "a")
        first.join()
    assert (tmp_path / "a").read_bytes() == DATA
    assert names(tmp_path) == ["a"]


def test_redirects_are_followed_and_limited(tmp_path: Path) -> None:
    files = {"/a": Served(data=DATA), "/to-a": Served(location="/a"), "/loop": Served(location="/loop")}
    files["/file"] = Served(location="file:///etc/passwd")
    files["/ftp"] = Served(location="ftp://127.0.0.1/x")
    with serve(files) as server:
        get(server.url("/to-a"), tmp_path / "a", sha256=SHA256)
        for path in ("/loop", "/file", "/ftp"):
            with pytest.raises(DataError):
                get(server.url(path), tmp_path / "b")
    assert names(tmp_path) == ["a"]


def test_a_password_is_sent_but_not_to_where_a_redirect_leads(tmp_path: Path) -> None:
    basic = "Basic " + base64.b64encode(b"me:s3cret").decode()
    with serve({"/b": Served(data=DATA)}) as other:
        with serve({"/a": Served(location=other.url("/b"), authorization=basic)}) as server:
            url = server.url("/a").replace("://", "://me:s3cret@")
            get(url, tmp_path / "a", sha256=SHA256)
            with pytest.raises(DataError, match="401") as caught:
                get(url.replace("s3cret", "wrong"), tmp_path / "c")
            assert "wrong" not in f"{caught.value} {caught.value.hint}"
        assert all("authorization" not in headers for _, headers in other.asked)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("file:///etc/passwd", "file:// is not supported"),
        ("ftp://host/x", "ftp:// is not supported"),
        ("host/x.tar", "does not start with https://"),
        ("http://", "no host name"),
        ("http://host:port/x", "invalid URL"),
        ("http://[::1/x", "invalid URL"),
        ("http://no-such-host.invalid/x", "cannot fetch http://no-such-host.invalid/x"),
    ],
)
def test_bad_urls(tmp_path: Path, url: str, says: str) -> None:
    with pytest.raises(DataError) as caught:
        get(url, tmp_path / "a", effort=Effort(num_tries=1))
    assert says in str(caught.value)
    assert caught.value.hint
    assert names(tmp_path) == []


def test_nobody_listens_and_404(tmp_path: Path) -> None:
    with serve({}) as server, pytest.raises(DataError, match="404"):
        get(server.url("/none?signature=abc"), tmp_path / "a")
    started = time.monotonic()
    with pytest.raises(DataError, match="refused") as caught:
        get(server.url("/none?signature=abc"), tmp_path / "a", effort=Effort())
    assert time.monotonic() - started < 5
    assert "abc" not in str(caught.value)
    assert names(tmp_path) == []


def test_a_missing_part_leaves_nothing(tmp_path: Path) -> None:
    with serve({"/a.0": Served(data=DATA)}) as server, pytest.raises(DataError, match="404"):
        get([server.url("/a.0"), server.url("/a.1")], f"{tmp_path}/new/folder/")
    assert names(tmp_path) == []


def test_an_output_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        get("http://127.0.0.1:9/a", tmp_path / "file" / "folder" / "a")


def test_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainmark.datasets.fetch import download

    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with serve({"/a": Served(data=DATA)}) as server, pytest.raises(DataError, match="not enough space") as caught:
        get(server.url("/a"), tmp_path / "a")
    assert "293.0 KiB needed" in caught.value.why


def test_a_server_may_claim_any_size() -> None:
    from trainmark.datasets.fetch.partial import begin_part
    from trainmark.datasets.fetch.server import Resource

    claimed = Resource(num_bytes=10**17, etag=None, last_modified=None, has_ranges=True)
    part = begin_part("http://host/x", claimed, num_connections=4)
    assert len(part.done) <= 10_001
    assert part.span(0)[0] == 0
    assert part.span(len(part.done) - 1)[1] == 10**17


def test_a_proxy_of_the_environment_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve({"http://example.invalid/a": Served(data=DATA)}) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url(""))
        get("http://example.invalid/a", tmp_path / "a", sha256=SHA256)


def test_names_of_files() -> None:
    def name(*urls: str) -> str:
        return name_file([parse_address(url) for url in urls])

    assert name("https://host/a/b%20c.tar.gz?x=/y") == "b c.tar.gz"
    assert name("https://host/train.tar.gz.00", "https://host/train.tar.gz.01") == "train.tar.gz"
    assert name("https://host/x.zip.partaa", "https://host/x.zip.partab") == "x.zip"
    for urls in (
        ["https://host/"],
        ["https://host/a/%2e%2e"],
        ["https://host/..%2f.x"],
        ["https://h/a.1", "https://h/b.1"],
    ):
        with pytest.raises(DataError, match="cannot choose a name"):
            name(*urls)


def test_secrets_are_hidden() -> None:
    text = "cannot open 'https://me:pw@host:8/x?token=abc#frag' or http://u@h/y?z"
    assert hide_secrets(text) == "cannot open 'https://host:8/x' or http://h/y"
    address = parse_address("https://me:p%40w@host/x?token=abc")
    assert "token" not in repr(address)
    assert "p%40w" not in repr(address)
    assert address.authorization == "Basic " + base64.b64encode(b"me:p@w").decode()
    assert parse_address("https://höst.example/ü b").url == "https://xn--hst-sna.example/%C3%BC%20b"


@pytest.mark.parametrize("text", ["", "xyz", "0" * 63, "g" * 64, "0" * 32 + "\n" + "0" * 31])
def test_what_is_no_checksum(text: str) -> None:
    with pytest.raises(DataError, match="invalid sha256 checksum"):
        parse_checksum("sha256", text)


def test_the_final_name_appears_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up while the checksum is compared: the partial file stays, to go on with."""

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with serve({"/a": Served(data=DATA)}) as server:
        with monkeypatch.context() as patch:
            patch.setattr(fetch_module, "hash_file", fail)
            with pytest.raises(DataError, match="Input/output error"):
                get(server.url("/a"), tmp_path / "a")
        assert names(tmp_path) == ["a.partial", "a.partial.json"]
        server.asked.clear()
        get(server.url("/a"), tmp_path / "a", sha256=SHA256)
        assert server.asked == []


@dataclass
class Sleeper:
    """The first thread that reads from a path holds its bytes until it is woken, long after its crew has ended."""

    path: str
    on_sleep: Callable[[], None]
    woken: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def lie_down(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read = download_module._Crew._read

        def read_and_sleep(crew: object, address: Address, response: http.client.HTTPResponse) -> bytes:
            block = read(crew, address, response)  # type: ignore[arg-type]
            if self.thread is None and address.shown.endswith(self.path):
                self.thread = threading.current_thread()
                self.on_sleep()
                self.woken.wait(20)
            return block

        monkeypatch.setattr(download_module._Crew, "_read", read_and_sleep)

    def wake(self) -> None:
        assert self.thread is not None
        assert self.thread.is_alive()
        self.woken.set()
        self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.mark.parametrize(("sleeps_in", "has_ranges"), [("/x.0", True), ("/x.1", True), ("/x.1", False)])
def test_a_thread_that_wakes_after_a_change_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sleeps_in: str, has_ranges: bool
) -> None:
    """It may sleep in a read of the part that changed, or of another one that stays as it was."""
    changing = Served(data=DATA, has_ranges=has_ranges, cut_after=20_000, pause_s=0.05)  # so that it is asked again
    files = {"/x.0": changing, "/x.1": Served(data=DATA, has_ranges=has_ranges)}

    def change() -> None:
        changing.data, changing.etag, changing.cut_after = DATA[::-1], '"two"', None

    sleeper = Sleeper(sleeps_in, change)
    sleeper.lie_down(monkeypatch)
    writers: list[threading.Thread] = []
    write_all = download_module._write_all

    def record(descriptor: int, block: bytes, offset: int) -> None:
        writers.append(threading.current_thread())
        write_all(descriptor, block, offset)

    monkeypatch.setattr(download_module, "_write_all", record)
    expected = DATA[::-1] + DATA
    with serve(files) as server:
        urls = [server.url(path) for path in files]
        effort = replace(EFFORT, num_connections=10)
        get(urls, tmp_path / "x", sha256=hashlib.sha256(expected).hexdigest(), effort=effort)
        writers.clear()
        sleeper.wake()
    assert writers == []
    assert (tmp_path / "x").read_bytes() == expected
    assert names(tmp_path) == ["x"]
