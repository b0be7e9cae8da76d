"""Every reason that a run folder or a plan can hold, made by the code that makes it: none is written down here."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from making import make_cell, make_run
from trainmark.controller import execute
from trainmark.launch import command_source, hang, stacks, supervise
from trainmark.launch.command_source import CommandSource
from trainmark.launch.dead_ranks import infer_ends
from trainmark.launch.heartbeat import WorkerSource
from trainmark.launch.job import Command
from trainmark.launch.outcome import decide, judge_command
from trainmark.plan.feasible import Reach, why_not
from trainmark.plan.machine import Gpu, Machine
from trainmark.runfolder.files import EXIT_FILE, OUTPUT_FILE, RUN_FILE, Json, rank_file, read_json
from trainmark.runfolder.records import RUN_TAG, Outcome, read_records
from trainmark.store.ending import read_ending
from trainmark.store.folder import read_any_run
from trainmark.worker.fake.engine import FakeClock, FakeEngine
from trainmark.worker.loop import Limits, MeasuredLoop
from trainmark.worker.main import Worker, _Signals
from trainmark.worker.recorder import Recorder
from trainmark.worker.sanity import advise_on_bad_loss

ELSEWHERE = {"kind": "run_start", "pid": 7, "host": "gpu2"}


def all_reasons(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found = [*processes_that_ended(), *commands_that_ended(), *ranks_that_died(), *cells_that_cannot_run()]
    for number, make in enumerate((supervised, folders, trainings, exchanges)):
        (root / str(number)).mkdir()
        found += make(root / str(number))
    with monkeypatch.context() as patch:
        for number, maker in enumerate((silent_ranks, silent_commands)):
            (root / f"silent{number}").mkdir()
            found += maker(root / f"silent{number}", patch)
    return found


def processes_that_ended() -> Iterator[str]:
    def end(returncode: int | None, **ends: Any) -> str:
        return decide(run_ends=ends.get("ends", {}), returncode=returncode, ended_by=None, why="").reason

    yield end(None)
    yield from (end(code) for code in (3, -signal.SIGTERM, -signal.SIGKILL, -99))
    yield end(1, ends={0: {"outcome": "ok", "reason": "", "unix_s": 1.0}})
    yield end(1, ends={n: {"outcome": "nan", "reason": bad_loss(), "unix_s": float(n)} for n in (0, 1)})


def bad_loss(*, advice: str = "") -> str:
    class Engine(FakeEngine):
        def advise_on_bad_loss(self, step: int) -> str:
            return advice or advise_on_bad_loss(rate=0.1, peak=0.1, recipe_peak=0.1, is_fp16=False)

    clock = FakeClock()
    loop = loop_of(Engine([0.1], clock=clock, losses=[float("nan")]), clock, Limits(max_seconds=1, max_steps=5))
    return loop.run().reason


def loop_of(engine: FakeEngine, clock: FakeClock, limits: Limits, failure: str | None = None) -> MeasuredLoop:
    recorder: Any = SimpleNamespace(failure=failure, write=lambda _: None)
    return MeasuredLoop(engine=engine, recorder=recorder, limits=limits, should_stop=lambda: None, clock=clock)


def trainings(root: Path) -> Iterator[str]:
    rising, falling = [float(n) for n in range(100)], [1.0 / (1 + n) for n in range(100)]
    short, epochs = Limits(max_seconds=1e9, max_steps=100), Limits(max_seconds=1, epochs=4)

    def run(limits: Limits, failure: str | None = None, **given: Any) -> str:
        clock = FakeClock()
        return loop_of(FakeEngine([0.1], clock=clock, **given), clock, limits, failure).run().reason

    for rate, peak, is_fp16 in ((0.1, 0.1, True), (0.05, 0.1, False), (0.2, 0.4, False), (0.4, 0.4, False)):
        yield bad_loss(advice=advise_on_bad_loss(rate=rate, peak=peak, recipe_peak=0.1, is_fp16=is_fp16))
    yield run(short, losses=rising)
    yield run(short, losses=[2.5])
    yield run(short, losses=falling, learns=False)
    yield run(short, "No space left on device")
    yield run(epochs)
    yield run(epochs, steps_per_epoch=25, losses=rising)
    yield run(epochs, steps_per_epoch=25, losses=falling, metrics=[{"top1": 7.5}])

    class Follower(FakeEngine):
        def agree(self, gravity: int, numbers: Sequence[int]) -> tuple[int, list[int]]:
            return max(gravity, 4), list(numbers)

    clock = FakeClock()
    yield loop_of(Follower([0.1], clock=clock), clock, short).run().reason
    yield from errors_of_a_worker()
    noted: Any = object.__new__(_Signals)
    noted.reason = None
    noted._note(signal.SIGTERM, None)
    yield noted.reason


def errors_of_a_worker() -> Iterator[str]:
    out_of_memory = type("OutOfMemoryError", (RuntimeError,), {})
    for limit in (None, 2 << 30):
        worker: Any = object.__new__(Worker)
        worker._run = {"memory_limit_bytes": limit}
        worker._load_package = lambda: SimpleNamespace(is_out_of_memory=lambda _: True)
        told = "CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has 1.00 GiB free."
        for error in (out_of_memory(told), RuntimeError("std::bad_alloc")):
            yield worker.explain(error).reason


def commands_that_ended() -> Iterator[str]:
    def judge(returncode: int, output: bytes = b"", *, is_oom: bool = False) -> str:
        end = judge_command(returncode=returncode, last_output=output, bad_loss=None, was_oom_killed=is_oom)
        return str(end["reason"])

    yield judge(0, b"loss: nan\n")
    yield judge(-9, is_oom=True)
    yield judge(-9)
    yield judge(2)
    yield judge(1, b"ValueError: no such file; try again\n")


def ranks_that_died() -> Iterator[str]:
    started = {0: hang.Silent(rank=0, pid=20990, host="gpu1", last_step=None).name}

    def infer(output: str, returncode: int = 1, *, is_oom: bool = False, has_launcher: bool = True) -> Iterator[str]:
        ends = infer_ends(
            {}, started=started, has_launcher=has_launcher, output=output, returncode=returncode, was_oom_killed=is_oom
        )
        yield from (str(end["reason"]) for end in ends.values())
        yield decide(run_ends=ends, returncode=returncode, ended_by=None, why="").reason

    mpirun = "mpirun noticed that process rank 3 with PID {pid} on node n2 exited on signal {signal} (x)."
    yield from infer("")
    yield from infer(mpirun.format(pid=5, signal=9))
    yield from infer(mpirun.format(pid=0, signal=9), is_oom=True)
    yield from infer(mpirun.format(pid=5, signal=6) + "\nCUDA out of memory")
    yield from infer("srun: error: n1: task 1: Exited with exit code 2")
    yield from infer("srun: error: n1: task 1: Exited with exit code 2\nout of memory")
    yield from infer("", -9, is_oom=True)
    yield from infer("", -15, has_launcher=False)


def write_ranks(folder: Path, *ranks: Sequence[Json]) -> None:
    for number, lines in enumerate(ranks):
        (folder / rank_file(number)).write_text("".join(json.dumps(line) + "\n" for line in lines))


def steps(num: int) -> list[Json]:
    return [{"kind": "step", "step": n + 1, "seconds": 0.5, "samples": 4} for n in range(num)]


def silent_ranks(root: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    patch.setattr(hang, "wake", lambda *_, **__: None)
    here = {"kind": "run_start", "pid": 7, "host": os.uname().nodename}

    def explain(name: str, states: dict[int, str], *ranks: Sequence[Json]) -> str:
        (root / name).mkdir()
        write_ranks(root / name, *ranks)
        patch.setattr(hang, "read_states", lambda _: states)
        source = WorkerSource(root / name)
        source.read_new()
        return source.explain_silence(60.4)

    yield explain("ended", {}, [{"kind": "run_end"}])
    yield explain("alone", {7: psutil.STATUS_SLEEPING}, [here, *steps(6)])
    yield explain("even", {}, [ELSEWHERE], [ELSEWHERE])
    yield explain("behind", {}, [ELSEWHERE, *steps(6)], [ELSEWHERE, *steps(4)], [ELSEWHERE, *steps(6)])
    yield explain("two", {}, [ELSEWHERE, *steps(6)], [ELSEWHERE, *steps(4)], [ELSEWHERE, *steps(3)])
    yield explain("other", {9: psutil.STATUS_STOPPED, 7: psutil.STATUS_STOPPED}, [here, *steps(6)], [ELSEWHERE])
    for state in hang._STATES:
        yield explain(state, {7: state}, [here, *steps(6)], [ELSEWHERE, *steps(6)])


def silent_commands(root: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    reader: Any = SimpleNamespace(feed=lambda *_: [], close=list, reread=lambda *_: None)
    source = CommandSource(root, reader)
    patch.setattr(hang, "read_states", lambda _: {9: psutil.STATUS_STOPPED})
    patch.setattr(stacks.shutil, "which", lambda _: None)
    yield source.explain_silence(700.0)
    source._gaps.append(0.25)
    patch.setattr(hang, "read_states", lambda _: {})
    patch.setattr(stacks.shutil, "which", lambda _: "py-spy")
    patch.setattr(stacks.processes, "find", lambda _: [])
    yield source.explain_silence(700.0)
    patch.setattr(stacks.processes, "find", lambda _: [None])
    patch.setattr(stacks, "_dump_one", lambda *_: ("stack", True))
    patch.setattr(command_source.records, "STACKS_FILE", "no/such/folder")
    yield source.explain_silence(700.0)
    write_ranks(root, [{**steps(1)[0], "loss": None}])
    source.read_new()
    yield str(source.close(0)[0]["reason"])


class Quiet:
    """A source whose `begin` fails as told."""

    def __init__(self, error: BaseException | None) -> None:
        self._error = error

    def begin(self) -> None:
        if self._error is not None:
            raise self._error

    def read_new(self) -> list[Json]:
        return []

    def quiet_s(self) -> tuple[float, float]:
        return 0.0, 1.0

    def explain_silence(self, silence_s: float) -> str:
        return str(silence_s)

    def close(self, returncode: int | None) -> dict[int, Json]:
        return {}


def supervised(root: Path) -> Iterator[str]:
    troubles = (None, KeyboardInterrupt(), KeyboardInterrupt("SIGTERM"), OSError("disk"), SystemExit(1))
    for number, error in enumerate(troubles):
        run_id = f"reasons-{os.getpid()}-{number}"
        folder = root / run_id
        folder.mkdir()
        command = Command(argv=("sleep", "30"), environment={RUN_TAG: run_id})
        try:
            supervise.supervise(
                folder, run_id, [command], launcher="local", timeout_s=0, observe=lambda _: None, source=Quiet(error),
            )  # fmt: skip
        except BaseException as raised:
            if raised is not error:
                raise
        yield (read_json(folder / EXIT_FILE) or {})["reason"]


def folders(root: Path) -> Iterator[str]:
    dead = make_run(root, "dead", outcome=None)
    yield read_ending(dead, "")["reason"]
    with (dead / OUTPUT_FILE).open("ab") as lock:
        supervise._hold(lock)
        yield read_ending(dead, "")["reason"]
    (dead / OUTPUT_FILE).unlink()
    yield read_ending(dead, "")["reason"]
    (dead / EXIT_FILE).unlink(missing_ok=True)
    store, sweep = SimpleNamespace(root=root, index=lambda _: None), SimpleNamespace()
    execute._mark_interrupted(store, sweep, "dead", KeyboardInterrupt())  # type: ignore[arg-type]
    yield (read_json(dead / EXIT_FILE) or {})["reason"]
    (dead / RUN_FILE).write_text("{")
    row = read_any_run(dead)
    assert row is not None
    yield row.reason


def cells_that_cannot_run() -> Iterator[str]:
    def ask(*, cores: int = 4, gpus: int = 0, has_torch: bool = True, num_nodes: int = 1, **cell: Any) -> str:
        machine = Machine(
            hostname="h", system="s", cpu="c", num_cores=cores, memory_bytes=1, driver=None, compiler=None,
            gpus=(Gpu(name="g", memory_bytes=1),) * gpus, frameworks={"torch": "2"} if has_torch else {},
        )  # fmt: skip
        return why_not(make_cell(**cell), machine, Reach(num_nodes=num_nodes)) or ""

    yield ask(has_torch=False)
    yield ask(device="cuda")
    yield from (ask(device="cuda", gpus=gpus, devices_per_node=8) for gpus in (1, 2))
    yield from (ask(cores=cores, devices_per_node=8) for cores in (1, 2))
    yield from (ask(num_nodes=known, nodes=4) for known in (1, 2))
    yield ask(precision="tf32")


def exchanges(root: Path) -> Iterator[str]:
    torch_step = pytest.importorskip("trainmark.worker.torch.step")
    step = object.__new__(torch_step.TrainStep)
    step._graph = step._model = None
    yield step.why_no_twin()
    step._graph = object()
    yield step.why_no_twin()

    class Broken(FakeEngine):
        def why_no_twin(self) -> str | None:
            raise RuntimeError("NCCL error")

    worker: Any = object.__new__(Worker)
    worker._cell, worker._measure, worker._has_ended = {"epochs": None}, {"max_seconds": 1, "max_steps": 1}, True
    worker._alarm = SimpleNamespace(expect_pause=lambda: None)
    worker._recorder = Recorder(root / "rank0.jsonl")
    worker._look_at_communication(Broken([0.1], clock=FakeClock(), world_size=2), SimpleNamespace(outcome=Outcome.OK))
    worker._recorder.close()
    yield from (record["reason"] for record in read_records(root / "rank0.jsonl") if "reason" in record)
