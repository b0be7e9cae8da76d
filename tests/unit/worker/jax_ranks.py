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


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
