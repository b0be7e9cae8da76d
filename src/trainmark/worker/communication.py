"""How much of a step is communication that is not hidden by computation: steps alternate with twin steps.

A twin step is the same forward, backward and optimizer step, but nothing is sent between the ranks. Blocks of both
alternate, and so does which one comes first, so that a drifting machine affects both equally; a block lasts as long as
on the slowest rank. The times of each pair of blocks are recorded; `analyse` derives the numbers.

This follows the measurement: these steps are not recorded as steps and do not count for throughput. The ranks' weights
drift apart in the twin steps, which is harmless: nothing is saved, evaluated or trained afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from trainmark.runfolder.records import Kind
from trainmark.worker.engine import Engine

_PAIRS = 12
_ENOUGH_PAIRS = 6
"""The smallest number whose median has a 95% interval."""
_BLOCK_S = 0.125
_LONG_S = 6.0
"""After this time `_ENOUGH_PAIRS` are enough."""
_MAX_FRACTION = 0.25
"""Of the allowed measuring time; then it ends with the pairs there are."""
_ALL_REDUCE_S = 2.0


def measure_communication(
    engine: Engine,
    *,
    max_seconds: float,
    max_steps: int | None,
    should_stop: Callable[[], bool],
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """One record, with a reason instead of times if there is no twin step. All ranks must call this."""
    record: dict[str, Any] = {"kind": Kind.COMMUNICATION, "num_ranks": engine.world_size}
    reason = engine.why_no_twin()
    if reason is not None:
        return {**record, **reason.to_reason()}
    begin = clock()
    most = _PAIRS if max_steps is None else min(_PAIRS, max_steps)
    steps_per_block = _warm_up(engine, clock)
    pairs: list[tuple[float, float]] = []
    while True:
        pairs.append(_time_pair(engine, steps_per_block, clock, twin_first=len(pairs) % 2 == 1))
        elapsed = clock() - begin
        is_long = elapsed > _LONG_S and len(pairs) >= _ENOUGH_PAIRS
        is_over = len(pairs) >= most or is_long or elapsed > _MAX_FRACTION * max_seconds
        asked, (ends,) = engine.agree(int(should_stop()), (int(is_over),))
        if asked or ends:
            break
    num_bytes = engine.gradient_bytes()
    return {
        **record,
        "reason": None,
        "steps_per_block": steps_per_block,
        "pairs": pairs,
        "gradient_bytes": num_bytes,
        "all_reduce_s": [] if asked else engine.time_all_reduce(num_bytes, max_seconds=_ALL_REDUCE_S),
    }


def _warm_up(engine: Engine, clock: Callable[[], float]) -> int:
    """Run one of each; return how many steps make a block long enough. The same number on all ranks."""
    _time_block(engine, engine.twin_step, 1, clock)
    step_s = _time_block(engine, engine.step, 1, clock)
    return max(1, round(_BLOCK_S / max(step_s, 1e-9)))


def _time_pair(engine: Engine, num_steps: int, clock: Callable[[], float], *, twin_first: bool) -> tuple[float, float]:
    """Seconds per step, with and without exchange."""
    if twin_first:
        without = _time_block(engine, engine.twin_step, num_steps, clock)
        return _time_block(engine, engine.step, num_steps, clock), without
    return _time_block(engine, engine.step, num_steps, clock), _time_block(engine, engine.twin_step, num_steps, clock)


def _time_block(engine: Engine, step: Callable[[], None], num_steps: int, clock: Callable[[], float]) -> float:
    begin = clock()
    for _ in range(num_steps):
        step()
        engine.timestamp()  # as in the measured loop: the engine limits how far the host runs ahead by its time stamps
    engine.wait()
    return engine.slowest(clock() - begin) / num_steps  # ranks wait for each other here, so blocks start together
