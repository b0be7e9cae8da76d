"""What a pod of a rendered Kubernetes manifest does; `trainmark.cli.pod` is its entry.

torchrun on node 0 starts when the run folder exists, and those of the other nodes wait for it, so all of them find the
folder. Node 0 is the controller: it stops the run when the result is precise enough, and writes how it ended.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainmark.controller.listener import Listener, RunEnd
from trainmark.errors import InputError, StoreError
from trainmark.launch.job import WORKER_MODULE, Command, own_python
from trainmark.launch.kubernetes import POD_VARIABLE, pod_argv
from trainmark.runfolder.document import RunDocument
from trainmark.runfolder.files import folder_mode
from trainmark.runfolder.records import RUN_TAG, Outcome


def run_pod(*, node_rank: int, master: str, listener: Listener) -> Outcome:
    """Only node 0 comes back from this: the others become torchrun."""
    run_id, text = os.environ.get(RUN_TAG), os.environ.get(POD_VARIABLE)
    if not run_id or not text:
        hint = "render a manifest with trainmark run ... --launcher kubernetes"
        raise InputError(f"{RUN_TAG} and {POD_VARIABLE} are not set", why="not in a pod of a manifest", hint=hint)
    start: dict[str, Any] = json.loads(text)
    folder = Path(start["store"]) / run_id
    worker = (*own_python(sys.executable), WORKER_MODULE, str(folder))
    torchrun = pod_argv(start, node_rank=node_rank, master=master, python=sys.executable, worker=worker)
    if node_rank > 0:
        os.execv(torchrun[0], torchrun)  # noqa: S606 - no shell: this process becomes torchrun
    document = RunDocument.from_json(start["run"])
    if document is None:
        raise InputError(f"{POD_VARIABLE} describes no run", hint="render the manifest again")
    _make_folder(folder, document)
    return _control(folder, run_id, document, Command(argv=tuple(torchrun)), start["timeout_s"], listener)


def _make_folder(folder: Path, document: RunDocument) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=folder_mode(folder.parent))
        replace(document, created_unix_s=time.time()).write(folder)
    except FileExistsError:
        hint = "a manifest can be run once: render another with the same command"
        raise StoreError(f"{folder} already exists", why="this manifest has been run", hint=hint) from None
    except OSError as error:
        hint = "is the volume mounted, writable and not full?"
        raise StoreError(f"cannot create {folder}", why=error.strerror or str(error), hint=hint) from error


def _control(
    folder: Path, run_id: str, document: RunDocument, command: Command, timeout_s: float | None, listener: Listener
) -> Outcome:
    from trainmark.controller.stopping_watch import StoppingWatch
    from trainmark.launch.supervise import supervise
    from trainmark.spec.suite import Measure

    listener.begin_run(run_id, number=1, total=1, left=None)
    measure = document.measure.to_json() if document.measure is not None else {}
    watch = StoppingWatch(
        Measure(**measure), listener, unit=lambda: document.unit, may_stop=document.cell.epochs is None
    )
    ending = supervise(folder, run_id, (command,), launcher="kubernetes", timeout_s=timeout_s, observe=watch)
    end = RunEnd(run_id=run_id, outcome=ending.outcome, reason=ending.reason.english, estimate=None, unit=document.unit)
    listener.end_run(end)
    return ending.outcome
