"""Controllers in processes of their own, cheap enough to be killed by the hundred, and what they leave behind."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path

import psutil

from trainmark.cli.main import main
from trainmark.launch import supervise
from trainmark.runfolder.records import RUN_TAG


def exit_with(argv: list[str], is_up: Event) -> None:
    """Ends as the command does: a signal must not meet the end of this harness instead."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    supervise._POLL_S = 0.02
    code = 130
    with contextlib.suppress(KeyboardInterrupt):
        is_up.set()
        code = main(argv)
    sys.stdout.flush()
    os._exit(code)


def make_starter() -> Callable[..., BaseProcess]:
    """A controller in a process of its own, from a server that has imported everything already: it starts at once."""
    context = multiprocessing.get_context("forkserver")
    needed = (
        "cli.progress",
        "cli.run",
        "controller.command",
        "controller.preflight",
        "store.index",
        "logs.live",
        "logs.registry",
        "launch.supervise",
        "report.console",
    )
    context.set_forkserver_preload([f"trainmark.{name}" for name in needed])

    def begin(store: Path, *argv: str) -> BaseProcess:
        is_up = context.Event()
        process = context.Process(target=exit_with, args=(["run", "--store", str(store), *argv], is_up))
        process.start()
        is_up.wait(60)
        return process

    return begin


def folders(store: Path) -> list[Path]:
    """Of runs: a name with a dot is not one yet, since it has no run.json."""
    names = store.iterdir() if store.is_dir() else ()
    return [path for path in names if path.is_dir() and not path.name.startswith(".")]


def finished(store: Path) -> dict[str, str]:
    """Every run that came to an end, with what its end says."""
    return {path.parent.name: path.read_text() for path in store.glob("*/exit.json")}


def living(store: Path) -> list[psutil.Process]:
    """Processes of any run in the store."""
    names, found = {path.name for path in folders(store)}, []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(RUN_TAG) in names:
                found.append(process)
    return found
