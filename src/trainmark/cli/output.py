"""Results go to stdout, messages to stderr; `--json` prints one document."""

from __future__ import annotations

import contextlib
import errno
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from trainmark.cli.parser import DEFAULT_STORE
from trainmark.errors import InputError, SpecError, TrainmarkError
from trainmark.runfolder.files import write_all
from trainmark.units import escape_non_ascii, format_count, plain, to_json

if TYPE_CHECKING:
    from rich.console import Console

    from trainmark.launch.job import Command
    from trainmark.store.index import Store
    from trainmark.store.rows import RunRow

UNHEARD = (OSError, ValueError)
"""Whoever read the messages has gone: a closed pipe or terminal, a full disk behind `2> log`. The work continues."""
_LONG_S = 3.0


def open_store(root: Path, *, url: str | None = None) -> Store:
    """A store that keeps the analysis of each run, so that it is computed only once. `url`: of its index."""
    from trainmark.controller.results import refuse_file
    from trainmark.report.document import result_analyser
    from trainmark.store.index import Store

    refuse_file(root)
    return Store(root, url=url, analyser=result_analyser())


def print_json(**document: Any) -> None:
    write_json_text(to_json({"schema": 2, **document}, indent=1) + "\n")


def write_json_text(text: str) -> None:
    """Exact in any encoding: a character that standard output does not have is escaped, never replaced."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = escape_non_ascii(text)
    sys.stdout.write(text)


def print_results(rows: Sequence[RunRow], *, protocol: str | None = None, **more: Any) -> None:
    """The `--json` document of the verbs that show results."""
    from trainmark.report.document import render_results

    write_json_text(render_results(rows, protocol=protocol, **more))


def print_commands(commands: Sequence[Command], *, is_json: bool) -> None:
    """For --launcher dry."""
    if is_json:
        facts = [{"argv": list(command.argv), "environment": dict(command.environment)} for command in commands]
        print_json(commands=facts)
    else:
        for command in commands:
            settings = [f"{key}={shlex.quote(value)}" for key, value in command.environment.items()]
            print(" ".join([*settings, shlex.join(command.argv)]))
    talk("dry run: nothing was started")


def talk(text: str) -> None:
    """In one write: `print` writes the end of the line separately, and threads that talk would share a line."""
    with contextlib.suppress(*UNHEARD):
        sys.stderr.write(plain(text) + "\n")
        sys.stderr.flush()


def next_command(text: str, *, store: str = DEFAULT_STORE) -> None:
    """The last line of a verb; names the store if it is not the default one."""
    talk(f"next: {text}" + ("" if store == DEFAULT_STORE else f" --store {shlex.quote(store)}"))


def say_next(rows: Sequence[RunRow], store: Store, *, given: str) -> None:
    """A report if there is a result to report, else the file that says why there is none.

    `given` is the store as it was typed.
    """
    from trainmark.controller.results import find_explanation

    if any(row.outcome == "ok" for row in rows) or store.rows(outcome="ok"):
        next_command("trainmark report", store=given)
    elif (path := find_explanation(rows, store)) is not None:
        next_command(f"look at {shlex.quote(str(path))}")


class IndexingNote:
    """Says once that indexing takes long; it usually does not.

    The clock starts with the first finished run: before it the analysis is loaded, which takes time for any number.
    """

    def __init__(self) -> None:
        self._begin_s: float | None = None
        self._has_spoken = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        self._begin_s = self._begin_s or now
        if not self._has_spoken and done < total and now - self._begin_s > _LONG_S:
            self._has_spoken = True
            talk(f"indexing {format_count(total, 'runs')} (only once), {done} done")


def print_error(error: TrainmarkError) -> None:
    print(f"error: {plain(error.what)}", file=sys.stderr)
    if isinstance(error, SpecError):
        for fault in error.faults:
            print(f"  {plain(fault.where)}: {plain(fault.problem)}", file=sys.stderr)
            print(f"    hint: {plain(fault.hint)}", file=sys.stderr)
        return
    if error.why:
        print(f"  why: {plain(error.why)}", file=sys.stderr)
    if error.hint:
        print(f"  hint: {plain(error.hint)}", file=sys.stderr)


def end_like_ctrl_c() -> None:
    """Pre-emption and a terminal that goes away end a run in order too, with partial results kept."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, _interrupt)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def exit_code_of(interrupt: KeyboardInterrupt) -> int:
    """As a shell reports a signal: 130 after Ctrl-C, 143 after SIGTERM, whose name the interrupt then carries."""
    return 128 + (signal.Signals[str(interrupt)] if str(interrupt) in signal.Signals.__members__ else signal.SIGINT)


def stdout_console() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def stderr_console() -> Console:
    from rich.console import Console

    return Console(highlight=False, stderr=True, soft_wrap=not sys.stderr.isatty())


def refuse_extension(path: Path, allowed: Sequence[str], *, what: str, hint: str) -> None:
    """A program opens a file by its extension. A name without one is allowed, and `v1.2` has none."""
    found = path.suffix.lower()
    if found not in ("", ".", *allowed) and not found[1:].isdigit():
        raise InputError(f"--output: {path} must not end in {path.suffix}", why=f"{what} is written to it", hint=hint)


def write_whole(files: Mapping[Path, str | bytes | Path], *, what: str, make_folders: bool = False) -> None:
    """All files or none: texts, bytes, and copies of other files."""
    try:
        for path in files:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
            if make_folders:
                path.parent.mkdir(parents=True, exist_ok=True)
        write_all(files)
    except OSError as error:
        why = error.strerror or str(error)
        path_text = error.filename or next(iter(files))
        folder = Path(path_text).parent
        make = f"create the folder: mkdir -p {shlex.quote(str(folder))}"
        hint = "use another --output" if folder.exists() else make
        raise InputError(f"cannot write the {what} to {path_text}", why=why, hint=hint) from error
