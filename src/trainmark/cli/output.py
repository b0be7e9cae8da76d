"""Results go to stdout, talk to stderr; `--json` prints one document."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

from trainmark.units import plain

if TYPE_CHECKING:
    from rich.console import Console


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def add_store_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", default="runs", metavar="DIR", help="folder of results (default: runs)")


def print_json(**document: Any) -> None:
    json.dump({"schema": 1, **document}, sys.stdout, indent=1, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def talk(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # whoever read the talk has gone; the work goes on
        print(plain(text), file=sys.stderr, flush=True)


def next_command(text: str, *, store: str = "runs") -> None:
    """Ends every verb; names the store where it is not the usual one."""
    talk(f"next: {text}" + ("" if store == "runs" else f" --store {shlex.quote(store)}"))


def stdout_console() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())
