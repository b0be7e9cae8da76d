"""One way to write a file whole, and one way to read a file that may not be a file."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from making import make_run
from trainmark.cli.main import main
from trainmark.runfolder import files
from trainmark.runfolder.files import (
    MAX_LINE_BYTES,
    open_regular,
    read_bounded,
    read_end,
    read_json,
    read_lines,
    replacing,
    write_all,
    write_json,
    write_text,
)
from trainmark.runfolder.records import RecordTail, encode_record
from trainmark.store.sweeps import Sweeps

pytestmark = pytest.mark.timeout(60)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(".", os.O_RDONLY)
        try:
            os.chdir(path.parent)  # a socket's path may have 107 bytes only
            server.bind(path.name)
        finally:
            os.fchdir(here)
            os.close(here)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "socket": make_socket,
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "link to a terminal": lambda path: path.symlink_to(os.ttyname(os.openpty()[1])),
    "folder": Path.mkdir,
    "link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.fixture(params=SPECIAL)
def special(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "special"
    SPECIAL[request.param](path)
    return path


# -- writing -----------------------------------------------------------------------------------------------------------


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_a_failure_leaves_the_previous_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_text(path, "before")
    with pytest.raises(UnicodeEncodeError), replacing(path) as file:
        file.write(b"half" + "\ud800".encode())
    assert path.read_text() == "before"
    assert leftovers(tmp_path) == []


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link, dangling = tmp_path / "there" / "target", tmp_path / "link", tmp_path / "dangling"
    target.write_text("before")
    link.symlink_to("there/target")
    dangling.symlink_to("there/new")
    for path in (link, dangling):
        write_text(path, "after")
        assert path.is_symlink()
    assert target.read_text() == (tmp_path / "there" / "new").read_text() == "after"


def test_the_mode_of_an_existing_file_is_kept(tmp_path: Path) -> None:
    path, new = tmp_path / "a", tmp_path / "b"
    path.write_text("")
    path.chmod(0o604)
    umask = os.umask(0o027)
    try:
        write_text(path, "x")
        write_text(new, "x")
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()), daemon=True)
    reader.start()
    write_json(path, {"a": 1})
    reader.join(30)
    assert found == [b'{\n "a": 1\n}\n']
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert leftovers(tmp_path) == []


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    """A pseudo-terminal, so that the test cannot harm the machine it runs on as root."""
    master, slave = os.openpty()
    name = Path(os.ttyname(slave))
    link = tmp_path / "terminal"
    link.symlink_to(name)
    try:
        for path in (name, link):
            write_text(path, "hello\n")
            assert b"hello" in os.read(master, 100)
        assert stat.S_ISCHR(name.stat().st_mode)
    finally:
        os.close(master)
        os.close(slave)


def test_a_socket_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    make_socket(path)
    with pytest.raises(OSError, match="No such device"):
        write_text(path, "x")
    assert stat.S_ISSOCK(path.stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1"])
def test_output_to_stdout_is_appended_to_what_is_there(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As under a shell's `>> log`: neither the file nor the device behind stdout is replaced."""
    make_run(tmp_path / "store", "run")
    argv = ["report", "--store", str(tmp_path / "store"), "--output"]
    log = tmp_path / "log"
    log.write_text("earlier\n")
    inode = log.stat().st_ino
    with log.open("ab") as stdout:
        subprocess.run([sys.executable, "-m", "trainmark.cli.main", *argv, name], stdout=stdout, check=True, timeout=60)
    assert main([*argv, "-"]) == 0
    report = capsys.readouterr().out
    assert len(report) > 100
    assert log.read_text() == "earlier\n" + report
    assert log.stat().st_ino == inode


def test_export_to_a_dash_is_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "run")
    assert main(["export", "--format", "csv", "--store", str(tmp_path), "--output", "-"]) == 0
    assert capsys.readouterr().out.startswith("id,")


def test_what_is_swapped_in_between_is_not_followed(tmp_path: Path) -> None:
    """Between the look at a path and the rename, somebody makes it a link to a file of ours."""
    target, victim = tmp_path / "report.md", tmp_path / "victim"
    target.write_text("before")
    victim.write_text("precious")
    with replacing(target) as file:
        file.write(b"after")
        target.unlink()
        target.symlink_to(victim)
    assert (victim.read_text(), target.read_text(), target.is_symlink()) == ("precious", "after", False)


def test_a_device_that_becomes_a_file_is_not_appended_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(files, "_is_stream", lambda _: True)
    with pytest.raises(OSError, match="replaced while it was opened"):
        write_text(victim, "x")
    assert victim.read_text() == "precious"


def test_another_name_of_the_file_keeps_the_old_content(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_text("before")
    other.hardlink_to(path)
    write_text(path, "after")
    assert (path.read_text(), other.read_text()) == ("after", "before")


@pytest.mark.parametrize("where", ["/dev/full", "DIR/loop", "DIR/gone/x", "DIR/link-to-gone", ""])
def test_output_that_cannot_be_written_is_one_message(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "store", "run")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link-to-gone").symlink_to("gone/x")
    before = sorted(path.name for path in tmp_path.iterdir())
    to = where.replace("DIR", str(tmp_path))
    assert main(["export", "--format", "csv", "--store", str(tmp_path / "store"), "--output", to]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert "Traceback" not in told
    assert "itself failed" not in told
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_all_files_or_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")
    (tmp_path / "source").write_text("copied")
    bad = tmp_path / "absent" / "b"
    with pytest.raises(OSError, match="absent/b"):
        write_all({tmp_path / "a": "after", tmp_path / "c": "new", bad: "x"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "source"]
    assert (tmp_path / "a").read_text() == "before"
    write_all({tmp_path / "a": "after", tmp_path / "c": tmp_path / "source"})
    assert [(tmp_path / name).read_text() for name in "ac"] == ["after", "copied"]


# -- reading -----------------------------------------------------------------------------------------------------------


def test_only_regular_files_are_read(special: Path) -> None:
    with pytest.raises(OSError, match="special"):
        open_regular(special)
    assert read_json(special) is None
    assert read_end(special, 100) == ""
    assert list(read_lines(special)) == []


def test_a_link_to_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('{"a": 1}')
    (tmp_path / "link").symlink_to("file")
    assert read_json(tmp_path / "link") == {"a": 1}


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.write_bytes(encode_record({"kind": "step"}))
    os.truncate(path, 1 << 40)  # sparse: a terabyte of zeros
    assert read_json(path) is None
    assert len(list(read_lines(path))) == 1
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_bounded(path, 10)


def test_the_tail_passes_over_a_line_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "rank0.jsonl"
    step = encode_record({"kind": "step"})
    path.write_bytes(step + b"x" * (2 * MAX_LINE_BYTES) + b"\n" + step * 3)
    tail = RecordTail(path)
    assert len(tail.read_new()) == 4
    assert tail.read_new() == []
    os.mkfifo(tmp_path / "pipe")
    assert RecordTail(tmp_path / "pipe").read_new() == []


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize(
    "name", ["run.json", "exit.json", "env.json", "command.json", "output.log", "rank0.jsonl", "rank1.jsonl"]
)
def test_a_special_file_in_a_run_folder_blocks_nobody(
    tmp_path: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path, "good")
    path = make_run(tmp_path, "strange") / name
    path.unlink(missing_ok=True)
    SPECIAL[kind](path)
    for argv in (["show", "--json"], ["report"], ["export", "--format", "csv"]):
        assert main([*argv, "--store", str(tmp_path)]) == 0
        assert "40.0" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [kind for kind in SPECIAL if kind != "link to itself"])
def test_a_special_file_as_index_blocks_nobody(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "good")
    SPECIAL[kind](tmp_path / "index.sqlite")
    assert main(["show", "--json", "--store", str(tmp_path)]) == 0
    assert "40.0" in capsys.readouterr().out


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("suffix", ["json", "lock"])
def test_a_special_sweep_file_blocks_nobody(tmp_path: Path, kind: str, suffix: str) -> None:
    content = "0123456789abcdef"
    sweeps = Sweeps(tmp_path)
    held = sweeps.begin(content, planned=[], skipped=[], settings={})
    held.release()
    path = tmp_path / f".sweep-{held.record.id}.{suffix}"
    path.unlink(missing_ok=True)
    SPECIAL[kind](path)
    sweeps.find(content)
    assert sweeps.read_cells(held.record.id) == []
    taken = sweeps.take_up(content)
    if taken is not None:
        taken.release()
