"""Every verb ends with one message and an exit code, whatever the paths, streams and encodings are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainmark.cli.guard import guard
from trainmark.cli.main import main
from trainmark.units import escape_non_ascii

LONG = "x" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["show", "--store", LONG],
        ["plan", "quick", "--store", LONG],
        ["doctor", "--store", LONG],
        ["import", LONG],
        ["import", f"{LONG}/{LONG}"],
        ["report", "--store", LONG],
        ["export", "--format", "csv", "--store", LONG],
        ["show", "--store", "a\nb\x1b[31m"],
    ],
)
def test_a_strange_path_is_one_message(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert "hint: " in errors
    assert "\x1b" not in errors


@pytest.mark.parametrize(
    "words",
    ["show --store loop", "import loop", "import .", "doctor --store loop", "data make cityscapes loop --images 10",
     "report --store . --output loop/x", "run quick --store loop"],
)  # fmt: skip
def test_a_link_to_itself_is_not_a_fault_of_ours(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    assert main(words.split()) in (0, 1, 2)
    assert "trainmark itself failed" not in capsys.readouterr().err


def fail() -> int:
    return int({}["missing"])


def test_a_fault_of_our_own_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert guard(fail, is_debug=False) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("error: trainmark itself failed: KeyError: 'missing'\n")
    assert "--debug" in errors
    assert "Traceback" not in errors


def test_debug_shows_the_traceback_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert guard(fail, is_debug=True) == 1
    errors = capsys.readouterr().err
    assert errors.index("Traceback") < errors.index("error: trainmark itself failed")


def test_debug_may_stand_anywhere_before_a_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    for words in (["--debug", "show", "--store", missing], ["show", "--store", missing, "--debug"]):
        assert main(words) == 2
        assert "Traceback" in capsys.readouterr().err
    assert main(["show", "--store", missing]) == 2
    assert "Traceback" not in capsys.readouterr().err


def start(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`script` is for a shell; $T is trainmark."""
    given = {**os.environ, **environment, "T": f"{sys.executable} -m trainmark.cli.main"}
    return subprocess.run(["sh", "-c", script], env=given, capture_output=True, text=True, check=False)


def test_a_full_or_closed_standard_output_is_said() -> None:
    done = start("$T list --json > /dev/full; echo $?; $T list >&-; echo $?")
    assert done.stdout == "2\n2\n"
    assert done.stderr.count("error: cannot write to standard output\n") == 2
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_closed_streams_harm_nothing(tmp_path: Path) -> None:
    """A file opened later must not take the number of a closed stream: what is printed would end up in it."""
    done = start(f"$T list --json 0>&- 2>&- > {tmp_path}/out; echo $?")
    assert done.stdout == "0\n"
    assert json.loads((tmp_path / "out").read_text())


def test_any_encoding_prints_and_json_stays_exact() -> None:
    source = (
        "from trainmark.cli import guard, output\n"
        "def body():\n"
        "    print('5 ± 1 × 中 😀'); output.print_json(name='± 中 😀'); return 0\n"
        "raise SystemExit(guard.guard(body, is_debug=False))"
    )
    for encoding in ("ascii", "latin-1"):
        environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
        done = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, check=True)
        first, _, rest = done.stdout.decode(encoding).partition("\n")
        assert first == ("5 +- 1 x " if encoding == "ascii" else "5 ± 1 × ") + r"\u4e2d \ud83d\ude00"
        assert json.loads(rest)["name"] == "± 中 😀"


def test_escapes_are_those_of_json() -> None:
    assert [json.loads(f'"{escape_non_ascii(letter)}"') for letter in "é中😀"] == ["é", "中", "😀"]
