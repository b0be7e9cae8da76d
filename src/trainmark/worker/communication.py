"""How much of a step is exchange that no computing hides: steps and their twins without exchange, in turn.

A twin is the same forward, backward and optimizer step, only nothing is sent between the ranks. Blocks of both take
turns, first one first and then the other, so that a drifting machine touches both alike; a block lasts as long as it
does on the slowest rank. What is written are the times of each pair of blocks; `analyse` makes the numbers.

This comes after the measurement: these steps are not records of steps and count for no throughput. The ranks' weights
drift apart in the twins. That is harmless: nothing is saved, evaluated or trained any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from trainmark.runfolder.records import Kind
from trainmark.worker.engine import Engine

_PAIRS = 12
_ENOUGH_PAIRS = 6
"""The fewest with a 95% interval of their median."""
_BLOCK_S = 0.125
_LONG_S = 6.0
"""Where steps are long, this is enough once there are `_ENOUGH_PAIRS`."""
_MAX_FRACTION = 0.25
"""Of the measuring time that was allowed; then it ends with however few pairs there are."""
_ALL_REDUCE_S = 2.0


def measure_communication(
    engine: Engine,
    *,
    max_seconds: float,
    max_steps: int | None,
    should_stop: Callable[[], bool],
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """One record; where there is no twin, it has the reason instead of times. All ranks must call this."""
    record: dict[str, Any] = {"kind": Kind.COMMUNICATION, "num_ranks": engine.world_size}
    reason = engine.why_no_twin()
    if reason is not None:
        return {**record, "reason": reason}
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
    """One of each; then steps for a block that is long beside the wait at its end. The same number on all ranks."""
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
    return engine.slowest(clock() - begin) / num_steps  # ranks wait for each other here, so blocks begin together
