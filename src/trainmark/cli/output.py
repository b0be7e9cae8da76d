"""Results go to stdout, talk to stderr; `--json` prints one document."""

from __future__ import annotations

import argparse
import contextlib
import errno
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from trainmark.errors import InputError
from trainmark.runfolder.files import write_all
from trainmark.units import plain, to_json

if TYPE_CHECKING:
    from rich.console import Console


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def add_store_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store", default="runs", type=path_word, metavar="DIR", help="folder of results (default: runs)"
    )


def path_word(text: str) -> str:
    """An empty variable of a script would otherwise mean the folder one happens to be in."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name is no path")
    return text


def print_json(**document: Any) -> None:
    sys.stdout.write(to_json({"schema": 1, **document}, indent=1) + "\n")


UNHEARD = (OSError, ValueError)
"""Whoever read the talk has gone: a closed pipe, terminal or file, a full disk behind it. The work goes on."""


def talk(text: str) -> None:
    with contextlib.suppress(*UNHEARD):
        print(plain(text), file=sys.stderr, flush=True)


def next_command(text: str, *, store: str = "runs") -> None:
    """Ends every verb; names the store where it is not the usual one."""
    talk(f"next: {text}" + ("" if store == "runs" else f" --store {shlex.quote(store)}"))


def end_like_ctrl_c() -> None:
    """Pre-emption and a terminal that went away end in order too, with partial results kept."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, _interrupt)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def exit_code_of(interrupt: KeyboardInterrupt) -> int:
    """As a shell gives for a signal: 130 after Ctrl-C, 143 after SIGTERM, whose name the interrupt then carries."""
    return 128 + (signal.Signals[str(interrupt)] if str(interrupt) in signal.Signals.__members__ else signal.SIGINT)


def stdout_console() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def stderr_console() -> Console:
    from rich.console import Console

    return Console(highlight=False, stderr=True, soft_wrap=not sys.stderr.isatty())


def write_whole(files: Mapping[Path, str | Path], *, what: str, make_folders: bool = False) -> None:
    """All of them or none: texts, and copies of other files."""
    try:
        for path in files:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
            if make_folders:
                path.parent.mkdir(parents=True, exist_ok=True)
        write_all(files)
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(
            f"cannot write the {what} to {error.filename}", why=why, hint="give another --output"
        ) from error
