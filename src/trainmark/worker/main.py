"""The measured process: reads run.json, trains, leaves records. Started by a launcher, once per device."""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import os
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from trainmark import records
from trainmark.records import Kind, Outcome
from trainmark.worker.engine import Engine
from trainmark.worker.environment import describe_environment
from trainmark.worker.loop import Limits, LoopEnd, MeasuredLoop
from trainmark.worker.recorder import Recorder
from trainmark.worker.telemetry import Telemetry


def main(argv: list[str]) -> int:
    folder = Path(argv[1])
    rank = int(os.environ.get("RANK", "0"))
    faulthandler.enable()
    _die_with_parent()
    signals = _Signals()
    run = records.read_json(folder / records.RUN_FILE)
    if run is None:
        print(f"no readable {records.RUN_FILE} in {folder}", file=sys.stderr)
        return 1
    recorder = Recorder(folder / records.rank_file(rank))
    try:
        end = _train(folder, run, rank, recorder, signals)
    except Exception as error:
        traceback.print_exc()
        is_memory = _engine_module(run["cell"]).is_out_of_memory(error)
        outcome = Outcome.OUT_OF_MEMORY if is_memory else Outcome.FAILED
        hint = "; use a smaller --batch-size" if is_memory else ""
        end = LoopEnd(outcome=outcome, reason=f"{type(error).__name__}: {error}"[:1000] + hint, num_steps=0)
    recorder.write({"kind": Kind.RUN_END, "outcome": end.outcome, "reason": end.reason, "steps": end.num_steps})
    recorder.close()
    return 0 if end.outcome is Outcome.OK else 1


def _train(folder: Path, run: dict[str, Any], rank: int, recorder: Recorder, signals: _Signals) -> LoopEnd:
    cell, measure = run["cell"], run["measure"]
    gpu_index = int(os.environ.get("LOCAL_RANK", "0")) if cell["device"] == "cuda" else None
    recorder.write({"kind": Kind.RUN_START, "schema": records.SCHEMA, "rank": rank, "pid": os.getpid()})
    with Telemetry(recorder, gpu_index=gpu_index):
        engine: Engine = _engine_module(cell).build_engine(cell)
        try:
            if rank == 0:
                facts = describe_environment(dict(engine.facts()), gpu_index=gpu_index)
                records.write_json(folder / records.ENVIRONMENT_FILE, facts)
            limits = Limits(max_seconds=measure["max_seconds"], max_steps=measure["max_steps"], epochs=cell["epochs"])
            stop_file = folder / records.STOP_FILE

            def should_stop() -> str | None:
                return signals.reason or ("the controller asked to stop" if stop_file.exists() else None)

            end = MeasuredLoop(engine=engine, recorder=recorder, limits=limits, should_stop=should_stop).run()
            recorder.write(
                {"kind": Kind.PHASE, "phase": "end", "edge": "end", "peak_memory_bytes": engine.peak_memory_bytes()}
            )
            return end
        finally:
            engine.close()


def _engine_module(cell: dict[str, Any]) -> ModuleType:
    return importlib.import_module(f"trainmark.worker.engine_{cell['framework']}")


class _Signals:
    """SIGTERM and SIGINT ask the loop to end at the next edge, with everything recorded; a second one ends at once."""

    def __init__(self) -> None:
        self.reason: str | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.reason is not None:
            os._exit(128 + number)
        self.reason = f"interrupted by {signal.Signals(number).name}"


def _die_with_parent() -> None:
    """So that a launcher killed with -9 leaves no worker behind. Linux only; elsewhere the supervisor cleans up."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    except (OSError, AttributeError):
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv))
