"""The measured process: read run.json, train, write records. Started by a launcher, once per device."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import math
import os
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from trainmark import rank_environment
from trainmark.errors import InputError
from trainmark.frameworks import frameworks
from trainmark.measured_peaks import find_matrix_peak, read_peaks
from trainmark.messages.endings import controller_stopped, interrupted, raised
from trainmark.messages.message import Message
from trainmark.messages.scaling import exchange_failed
from trainmark.messages.training import out_of_memory
from trainmark.parent_death import die_with
from trainmark.runfolder.document import MeasureRecord, RunDocument
from trainmark.runfolder.files import (
    CHECKPOINT_FILE,
    RUN_FILE,
    SCHEMA,
    STOP_FILE,
    rank_file,
    read_json,
    stacks_file,
)
from trainmark.runfolder.records import Kind, Outcome
from trainmark.silence_limit import SilenceLimit
from trainmark.worker.alarm import Alarm
from trainmark.worker.bytecode import keep_bytecode
from trainmark.worker.checkpoint import CheckpointRefusedError
from trainmark.worker.communication import measure_communication
from trainmark.worker.engine import Engine, EnginePackage
from trainmark.worker.environment import describe_environment, write_environment
from trainmark.worker.loop import Limits, LoopEnd, MeasuredLoop
from trainmark.worker.recorder import Recorder
from trainmark.worker.resume import Past, resume
from trainmark.worker.start_weights import start_from_file
from trainmark.worker.telemetry.sampler import Telemetry
from trainmark.worker.training_code import training_code


def main(argv: list[str]) -> int:
    folder = Path(argv[1])
    faulthandler.enable()
    die_with(os.getppid())
    run = RunDocument.read(folder)
    if run is None:
        print(f"no readable {RUN_FILE} in {folder}", file=sys.stderr)
        return 1
    worker = Worker(folder, run)
    try:
        end = worker.train()
    except Exception as error:
        traceback.print_exc()
        end = worker.explain(error)
        worker.finish(end, may_wait=False)
    else:
        worker.finish(end)
    return 0 if end.outcome is Outcome.OK else 1


class Worker:
    def __init__(self, folder: Path, run: RunDocument) -> None:
        self._folder, self._run, self._cell = folder, run, run.cell.workload_cell()
        self._measure = run.measure or MeasureRecord()
        self._max_seconds = math.inf if self._measure.max_seconds is None else self._measure.max_seconds
        self._rank = rank_environment.read("RANK", os.environ, default=0)
        is_cuda = self._cell.device == "cuda"
        self._gpu_index = rank_environment.read("LOCAL_RANK", os.environ, default=0) if is_cuda else None
        self._signals = _Signals()
        here, all_ranks = (
            rank_environment.read(name, os.environ, default=1) for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE")
        )
        self._recorder = Recorder(folder / rank_file(self._rank), is_read_from_afar=here != all_ranks)
        self._alarm = Alarm(folder / stacks_file(self._rank), SilenceLimit.of(run))
        self._has_others = all_ranks > 1
        self._engine: Engine | None = None
        self._has_ended = False

    def train(self) -> LoopEnd:
        start = {"kind": Kind.RUN_START, "schema": SCHEMA, "rank": self._rank}
        self._recorder.write({**start, "pid": os.getpid(), "host": os.uname().nodename})
        self._alarm.expect_pause()
        self._write_environment({})  # now already, so that a run that fails has it too
        with Telemetry(self._recorder, gpu_index=self._gpu_index):
            self._begin_phase("load", what=self._cell.framework)
            keep_bytecode(self._cell.framework)
            package = self._load_package()
            compiles_here = self._cell.recipe == "fast" and self._cell.device == "cuda"
            compiles = compiles_here or self._cell.framework == "jax"
            self._begin_phase("build", what="and compiling" if compiles else None)
            if self._run.memory_limit_bytes is not None:
                package.limit_memory(self._cell.device, self._run.memory_limit_bytes)
            self._engine = package.build_engine(self._cell)
            start = start_from_file(self._engine, self._run)
            facts = self._engine.facts()
            peak = find_matrix_peak(read_peaks(os.environ), facts.get("device_name"), self._cell.precision)
            self._write_environment({**facts, "matrix_flops_per_s": peak, **start})
            self._begin_phase("first_step", what="(choosing kernels)" if self._cell.device == "cuda" else None)
            end = self._build_loop(self._engine).run()
            peak_bytes = self._engine.peak_memory_bytes()
            self._recorder.write({"kind": Kind.PHASE, "phase": "end", "edge": "end", "peak_memory_bytes": peak_bytes})
            self._look_at_communication(self._engine, end)
            return end

    def _begin_phase(self, name: str, *, what: str | None = None) -> None:
        """What the process does until the next phase or step; for whoever watches, so it has no seconds."""
        self._recorder.write({"kind": Kind.PHASE, "phase": name, "edge": "begin", "what": what})

    def _look_at_communication(self, engine: Engine, end: LoopEnd) -> None:
        """After a measurement of speed that succeeded on all ranks. A failure here does not fail the run."""
        if engine.world_size == 1 or self._cell.epochs is not None:
            return
        went_wrong, _ = engine.agree(int(end.outcome is not Outcome.OK), ())
        if went_wrong:
            return
        self._record_end(end)  # now: nothing that follows can fail a finished measurement
        self._begin_phase("communication")
        self._alarm.expect_pause()
        try:
            record = measure_communication(
                engine,
                max_seconds=self._max_seconds,
                max_steps=self._measure.max_steps,
                should_stop=lambda: self._signals.reason is not None,
            )
        except Exception as error:
            traceback.print_exc()
            reason = exchange_failed(error=_in_one_line(error)[:300])
            record = {"kind": Kind.COMMUNICATION, **reason.to_reason()}
        self._recorder.write(record)
        self._recorder.write({"kind": Kind.PHASE, "phase": "communication", "edge": "end"})

    def _build_loop(self, engine: Engine) -> MeasuredLoop:
        limits = Limits(
            max_seconds=self._max_seconds,
            max_steps=self._measure.max_steps,
            epochs=self._cell.epochs,
            eval_every=self._run.eval_every or 1,
            targets=self._cell.until_target,
        )
        checkpoint = self._folder / CHECKPOINT_FILE
        past = self._resume(engine)
        return MeasuredLoop(
            engine=engine,
            recorder=self._recorder,
            limits=limits,
            should_stop=self._reason_to_stop,
            save=lambda progress: engine.save(checkpoint, vars(progress)),
            start=past.point,
            earlier_losses=past.losses,
            earlier_warnings=past.warnings,
            alarm=self._alarm,
        )

    def _resume(self, engine: Engine) -> Past:
        run_id = self._run.resumed_from
        return Past() if run_id is None else resume(engine, self._folder.parent / run_id, self._recorder)

    def explain(self, error: Exception) -> LoopEnd:
        if isinstance(error, CheckpointRefusedError):
            return LoopEnd(outcome=Outcome.FAILED, reason=error.reason, num_steps=None)
        is_memory = False
        with contextlib.suppress(ImportError, OSError):  # loading the framework may be what failed
            is_memory = self._load_package().is_out_of_memory(error)
        text = _in_one_line(error)[:1000]
        if not is_memory:
            return LoopEnd(outcome=Outcome.FAILED, reason=raised(error=text), num_steps=None)
        reason = out_of_memory(error=text, limit_bytes=self._run.memory_limit_bytes)
        return LoopEnd(outcome=Outcome.OUT_OF_MEMORY, reason=reason, num_steps=None)

    def finish(self, end: LoopEnd, *, may_wait: bool = True) -> None:
        """The end is recorded before anything is closed: a hang while closing cannot fail a finished run.

        `may_wait`: the other ranks end too, so closing may wait for them.
        """
        if end.outcome is not Outcome.OK:
            print(f"{end.outcome}: {end.reason.english}", file=sys.stderr)
        self._record_end(end)
        self._recorder.close()
        self._alarm.close()
        if self._has_others and not may_wait:
            _leave_at_once()
        if self._engine is not None:
            with contextlib.suppress(Exception):
                self._engine.close()

    def _record_end(self, end: LoopEnd) -> None:
        if not self._has_ended:
            self._has_ended = True
            record = {"kind": Kind.RUN_END, "outcome": end.outcome, **end.reason.to_reason(), "steps": end.num_steps}
            self._recorder.write(record if end.is_own else {**record, "is_own": False})

    def _reason_to_stop(self) -> tuple[Outcome, Message] | None:
        if self._signals.reason is not None:
            return Outcome.KILLED, self._signals.reason
        stop_file = self._folder / STOP_FILE
        if not stop_file.exists():
            return None
        asked = read_json(stop_file)  # an empty file asks as well
        return Outcome.OK, controller_stopped() if asked is None else Message.from_json(asked)

    def _write_environment(self, facts: dict[str, Any]) -> None:
        if self._rank == 0:
            code = training_code(self._cell.workload, self._cell.framework)
            found = {**facts, "training_code": code}
            own = [self._cell.framework]
            document = describe_environment(found, gpu_index=self._gpu_index, frameworks=own, image=self._run.image)
            write_environment(self._folder, document)

    def _load_package(self) -> EnginePackage:
        framework = frameworks().load(self._cell.framework)
        if framework.engine is None:
            raise InputError(f"trainmark has no engine for {framework.name}")
        package: EnginePackage = importlib.import_module(framework.engine)
        return package


def _in_one_line(error: Exception) -> str:
    """Paddle's errors have several lines; a reason is shown as one."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


def _leave_at_once() -> NoReturn:
    """Without any code that runs at exit: leaving the group of processes there would wait for ranks that still train.

    The launcher sees this process end and ends the others. The processes that make samples end with it.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(1)


class _Signals:
    """A signal asks the loop to end at the next edge, with everything recorded; a second SIGINT ends at once.

    A second SIGTERM is ignored: the controller, torchrun and a batch system each pass on the same request, and a
    training needs the time to write its checkpoint. SIGHUP arrives instead when a remote shell has ended.
    """

    def __init__(self) -> None:
        self.reason: Message | None = None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.reason is not None and number == signal.SIGINT:
            os._exit(128 + number)
        self.reason = self.reason or interrupted(signal=signal.Signals(number).name)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
