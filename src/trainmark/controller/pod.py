"""`python -m trainmark.controller.pod`: what a pod of a rendered manifest runs. Nobody types it.

torchrun on node 0 begins only when the run folder is there, and those of the other nodes wait for it, so all of them
find the folder. Node 0 is the controller: it stops the run when enough is known, and writes how it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from trainmark.cli.output import end_like_ctrl_c, exit_code_of
from trainmark.errors import InputError, StoreError, TrainmarkError
from trainmark.launch.job import WORKER_MODULE, Command, own_python
from trainmark.launch.kubernetes import POD_VARIABLE, pod_argv
from trainmark.runfolder.files import RUN_FILE, Json, write_json
from trainmark.runfolder.records import RUN_TAG, Outcome


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="trainmark.controller.pod", description="a pod of `--launcher kubernetes`")
    parser.add_argument("--node-rank", type=int, required=True)
    parser.add_argument("--master", required=True)
    args = parser.parse_args(argv)
    try:
        return run_pod(node_rank=args.node_rank, master=args.master)
    except TrainmarkError as error:
        print(f"error: {error}" + (f"\nhint: {error.hint}" if error.hint else ""), file=sys.stderr)
        return error.exit_code


def run_pod(*, node_rank: int, master: str) -> int:
    run_id, text = os.environ.get(RUN_TAG), os.environ.get(POD_VARIABLE)
    if not run_id or not text:
        hint = "render one with trainmark run ... --launcher kubernetes"
        raise InputError(f"{RUN_TAG} and {POD_VARIABLE} are not set", why="this is no pod of a manifest", hint=hint)
    start: dict[str, Any] = json.loads(text)
    folder = Path(start["store"]) / run_id
    worker = (*own_python(sys.executable), WORKER_MODULE, str(folder))
    torchrun = pod_argv(start, node_rank=node_rank, master=master, python=sys.executable, worker=worker)
    if node_rank > 0:
        os.execv(torchrun[0], torchrun)  # noqa: S606 - no shell: the same process goes on as torchrun
    _make_folder(folder, start["run"])
    end_like_ctrl_c()
    try:
        return _control(folder, run_id, start, Command(argv=tuple(torchrun)))
    except KeyboardInterrupt as interrupt:
        return exit_code_of(interrupt)


def _make_folder(folder: Path, run: Json) -> None:
    try:
        folder.mkdir(parents=True)
        write_json(folder / RUN_FILE, {**run, "created_unix_s": time.time()})
    except FileExistsError:
        hint = "a manifest is good for one run: render another with the same command"
        raise StoreError(f"{folder} is there already", why="this manifest has been run", hint=hint) from None
    except OSError as error:
        hint = "is the volume mounted, writable and not full?"
        raise StoreError(f"{folder} could not be made", why=error.strerror or str(error), hint=hint) from error


def _control(folder: Path, run_id: str, start: dict[str, Any], command: Command) -> int:
    from trainmark.cli.progress import Progress, RunWatch
    from trainmark.launch.supervise import supervise
    from trainmark.spec.suite import Measure

    run = start["run"]
    measure = Measure(**run["measure"])
    with Progress(total=1) as progress:
        progress.begin(run_id, run_id, 1)
        watch = RunWatch(progress, measure, lambda: str(run["unit"]), may_stop=run["cell"]["epochs"] is None)
        ending = supervise(
            folder, run_id, (command,), launcher="kubernetes", timeout_s=start["timeout_s"], observe=watch
        )
        progress.end(ending.outcome, ending.reason.english)
    return 0 if ending.outcome is Outcome.OK else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
