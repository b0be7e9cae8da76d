"""One prepared training behind a pipe: several of these are measured in turns on one device.

Reads one command per line on stdin and answers each with one line of JSON on stdout:

    measure SECONDS     train for about so long; answers with the seconds and the number of steps of each block.
                        Starts again, untimed so far, when a batch brings shapes that have to be compiled for
    load SECONDS        take batches without training, behind those that are ready; answers with samples and seconds
    profile PATH        write where the device spends the time of a step; answers with the sums
    end

The first line it writes, unasked, says how long it took from `BEGIN_VARIABLE` to the end of the first step.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from trainmark.frameworks import frameworks
from trainmark.parent_death import die_with
from trainmark.runfolder.document import CellRecord, WorkloadCell
from trainmark.worker.bytecode import keep_bytecode
from trainmark.worker.engine import Engine
from trainmark.worker.training import TrainingEngine

BEGIN_VARIABLE = "TRAINMARK_BEGIN_UNIX_S"
_BLOCK_S = 0.25


def main() -> None:
    die_with(os.getppid())
    # Whatever a library prints must not mix with the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    request = json.loads(sys.argv[1])
    began = float(os.environ.get(BEGIN_VARIABLE, time.time()))
    cell = CellRecord.from_json(request["cell"]).workload_cell()
    keep_bytecode(cell.framework)
    import_module(cell.framework)
    imported_s = time.time() - began
    engine = _build(cell, request["without"])
    engine.begin_epoch(0)
    prepared_s = time.time() - began
    engine.step()
    handle = engine.queue_loss()
    engine.wait()
    first = {
        "imported_s": imported_s,
        "prepared_s": prepared_s,
        "first_step_s": time.time() - began,
        "first_loss": engine.read_loss(handle),
        "facts": dict(engine.facts()),
    }
    _answer(answers, first)
    for line in sys.stdin:
        command, *words = line.split()
        if command == "measure":
            _answer(answers, {**_measure(engine, float(words[0])), "peak_memory_bytes": engine.peak_memory_bytes()})
        elif command == "load":
            _answer(answers, _load(engine, float(words[0])))
        elif command == "profile":
            _answer(answers, _profile(engine, words[0]))
        else:
            break
    engine.close()


def _build(cell: WorkloadCell, without: Sequence[str]) -> Engine:
    """With PyTorch, optimisations can be left out one by one; the other frameworks have them all or none."""
    if cell.framework == "torch":
        from trainmark.worker.torch.engine import TorchEngine

        return TorchEngine(cell, without=without)
    if without:
        raise ValueError(f"{cell.framework}: cannot leave out {', '.join(without)}; only torch can")
    package = frameworks().load(cell.framework).engine
    if package is None:
        raise ValueError(f"trainmark cannot train with {cell.framework}")
    engine: Engine = import_module(package).build_engine(cell)
    return engine


def _profile(engine: Engine, path: str) -> dict[str, Any]:
    from trainmark.worker.torch.engine import TorchEngine
    from trainmark.worker.torch.profile import profile_steps

    if not isinstance(engine, TorchEngine):
        raise TypeError("only a step of torch can be profiled")
    return profile_steps(engine, path)


def _measure(engine: Engine, seconds: float) -> dict[str, Any]:
    """Blocks of steps between two waits; the host runs ahead within a block, as it does in a training."""
    num_steps, has_paused = 1, False
    blocks: list[tuple[int, float]] = []

    def pause(work: Callable[[], None]) -> None:
        nonlocal has_paused
        has_paused = True
        work()

    def settle() -> float:
        """When to end, once the loaders have nothing left of a pause in which something was compiled."""
        nonlocal has_paused
        has_paused = True
        while has_paused:
            has_paused = False
            _drain_feed(engine)
        return time.perf_counter() + seconds

    engine.pause = pause
    end = settle()
    while not blocks or time.perf_counter() < end:
        engine.wait()
        begin = engine.timestamp()
        for _ in range(num_steps):
            engine.step()
        stamp = engine.timestamp()
        engine.wait()
        if has_paused:
            blocks.clear()
            end = settle()
            continue
        spent = engine.seconds_between(begin, stamp)
        blocks.append((num_steps, spent))
        num_steps = max(1, min(2 * num_steps, round(num_steps * _BLOCK_S / max(spent, 1e-9))))
    kept = blocks[len(blocks) // 4 :]  # the first ones may still be filling queues
    return {"blocks": kept, "samples_per_step": engine.samples_per_step}


def _drain_feed(engine: Engine) -> None:
    """Loaders filled their queue while another variant was measured, which made a slow one look nearly fast enough.

    They start again, and as many steps as they can be ahead are not timed: a fast one is ahead when the clock starts.
    """
    if not isinstance(engine, TrainingEngine) or not engine.num_ahead:
        return
    engine.restart_feed()
    for _ in range(engine.num_ahead):
        engine.step()
        engine.timestamp()  # as in the measured loop: the engine limits how far the host runs ahead by its time stamps


def _load(engine: Engine, seconds: float) -> dict[str, Any]:
    """Neither what was made ahead, which would count as made in no time, nor the start of the loaders is timed."""
    if not isinstance(engine, TrainingEngine):
        raise TypeError("an engine of another package has a feed of its own")
    engine.restart_feed()
    for _ in range(1 + engine.num_ahead):
        engine.skip_batch()
    num_batches, begin = 0, time.perf_counter()
    while not num_batches or time.perf_counter() - begin < seconds:
        engine.skip_batch()
        num_batches += 1
    engine.wait()
    return {"samples": num_batches * engine.samples_per_step, "seconds": time.perf_counter() - begin}


def _answer(file: Any, document: dict[str, Any]) -> None:
    print(json.dumps(document), file=file, flush=True)


if __name__ == "__main__":
    main()
