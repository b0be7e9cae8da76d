"""Steps of an engine in tests."""

from __future__ import annotations

from trainmark.worker.engine import Engine


def losses_of(engine: Engine, num_steps: int) -> list[float]:
    """Of the next steps. They are read after the last one, so that no step waits for the one before it."""
    handles = []
    for _ in range(num_steps):
        engine.step()
        handles.append(engine.queue_loss())
    engine.wait()
    return [engine.read_loss(handle) for handle in handles]
