"""One of two ranks: trains a small network, evaluates, and writes down what it has."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from small_jax import shrink_resnet

sys.path.insert(0, str(Path(__file__).parents[2]))
from making import make_workload_cell
from trainmark.worker.jax.engine import JaxEngine


def main(images: str, folder: Path) -> None:
    shrink_resnet(pytest.MonkeyPatch())
    cell = make_workload_cell(
        workload="resnet50", framework="jax", devices_per_node=2, batch_size_per_device=2, data=images
    )
    engine = JaxEngine(cell)
    losses = []
    for _ in range(3):
        engine.step()
        losses.append(engine.read_loss(engine.queue_loss()))
    engine.save(folder / "checkpoint", {"num_steps": 3.0})
    save_gradients(engine, folder)
    metrics = engine.evaluate()
    values = engine.export_weights()
    found = {
        "rank": engine.rank,
        "losses": losses,
        "metrics": metrics,
        "weight_norms": [float(np.linalg.norm(value)) for value in values.values()],
        "agreed": engine.agree(engine.rank, [5 + engine.rank]),
        "slowest": engine.slowest(float(engine.rank)),
        "all_reduce": len(engine.time_all_reduce(4096, max_seconds=0.01)),
    }
    (folder / f"rank{engine.rank}.json").write_text(json.dumps(found))
    engine.close()


def save_gradients(engine: JaxEngine, folder: Path) -> None:
    """Of one batch, before and after the exchange; at a rate of 0 both are those of the same weights."""
    step, batch = engine._train_step, engine._feed.next_batch()
    for name, is_exchanging in {"own": False, "mean": True}.items():
        _, _, gradients = step.run(batch, 0.0, is_exchanging=is_exchanging, is_watched=True)
        np.savez(folder / f"{name}{engine.rank}.npz", **engine._placement.own(gradients))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
