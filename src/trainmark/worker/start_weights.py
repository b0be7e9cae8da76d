"""The weights that a training starts from, of the file that the run names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainmark.runfolder.document import RunDocument
from trainmark.weights.loading import load_start
from trainmark.weights.neutral import WeightsError
from trainmark.worker.engine import Engine


def start_from_file(engine: Engine, run: RunDocument) -> dict[str, Any]:
    """What of it was loaded, for env.json. A training that is resumed has the weights of its checkpoint."""
    if run.weights is None or run.resumed_from is not None:
        return {}
    cell, path = run.cell.workload_cell(), Path(str(run.weights.get("path")))
    own = engine.export_weights()
    start = load_start(
        path,
        workload=cell.workload,
        shapes={name: tuple(array.shape) for name, array in own.items()},
        recipe=cell.recipe,
        seed=cell.seed,
    )
    if start.file.sha256 != run.weights.get("sha256"):
        why = f"its SHA-256 is {start.file.sha256[:8]}..., and was {str(run.weights.get('sha256'))[:8]}..."
        raise WeightsError(f"{path.name}: changed since the run was planned", why=why)
    engine.import_weights({**own, **{name: array.astype(own[name].dtype) for name, array in start.arrays.items()}})
    return {"weights": start.to_json()}
