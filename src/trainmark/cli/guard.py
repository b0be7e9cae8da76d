"""Whatever happens in a verb, the user sees one message and gets an exit code; `--debug` adds the traceback."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Never

from trainmark.cli.output import exit_code_of, print_error, talk
from trainmark.errors import InputError, TrainmarkError
from trainmark.units import escape_non_ascii

_TYPOGRAPHY = str.maketrans({"±": "+-", "×": "x", "…": "...", "–": "-", "—": "-", "→": "->", "≤": "<=", "≥": ">=",
                             "µ": "u", "·": "-", "²": "^2", "“": '"', "”": '"', "‘": "'", "’": "'"})  # fmt: skip


def guard(body: Callable[[], int], *, is_debug: bool) -> int:
    """Run a verb; `body` may raise anything."""
    prepare_streams()
    try:
        return _run_and_flush(body)
    except TrainmarkError as error:
        _trace(is_debug)
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        _trace(is_debug)
        talk("interrupted")
        return exit_code_of(interrupt)
    except BrokenPipeError:
        # `trainmark show | head`: the reader has gone, which is not an error.
        _give_up_stdout()
        return 0
    except Exception as error:
        _trace(is_debug)
        _give_up_stdout()
        found = _explain(error)
        print_error(found)
        return found.exit_code


def _run_and_flush(body: Callable[[], int]) -> int:
    """Flushed here, since at exit nobody could report a full disk."""
    try:
        code = body()
    except SystemExit as end:  # --help and --version
        code = end.code if isinstance(end.code, int) else 0
    sys.stdout.flush()
    return code


def _explain(error: Exception) -> TrainmarkError:
    if isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EROFS):
        name = f" {os.fsdecode(error.filename)}" if isinstance(error.filename, (str, bytes)) else ""
        return InputError(f"cannot use the path{name}", why=error.strerror or "", hint="pass another path")
    if isinstance(error, OSError) and error.filename is None and error.errno in (errno.ENOSPC, errno.EBADF, errno.EIO):
        why = error.strerror or ""
        return InputError(
            "cannot write to standard output", why=why, hint="check where the output goes, and run it again"
        )
    if isinstance(error, MemoryError):
        return TrainmarkError("out of memory", hint="end other programs, or use fewer or smaller files at once")
    what = f"trainmark itself failed: {type(error).__name__}: {error}"
    hint = "run it again with --debug for the traceback, and report it; finished runs are kept"
    return TrainmarkError(what, why="this is a fault of trainmark, not of your input", hint=hint)


def _trace(is_debug: bool) -> None:
    if is_debug:
        import traceback

        traceback.print_exc()


def prepare_streams() -> None:
    """Closed standard streams do not let a later file take their place, and no character ends in an error."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    sys.stdout = sys.stdout or _Closed()
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 -- open until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


class _Closed(io.TextIOBase):
    """Standard output that was closed by the caller: work that does not print is done all the same."""

    encoding = "utf-8"

    def write(self, _: str) -> Never:
        raise OSError(errno.EBADF, "it is closed")


def _give_up_stdout() -> None:
    """What could not be written is not tried again at exit: Python would complain then."""
    if sys.stdout is sys.__stdout__:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _replace(error: UnicodeError) -> tuple[str, int]:
    """For encodings such as ASCII and latin-1: `±` becomes `+-`, and what has no such form is escaped as in JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return escape_non_ascii(error.object[error.start : error.end].translate(_TYPOGRAPHY)), error.end


_HANDLER = "trainmark"
codecs.register_error(_HANDLER, _replace)
