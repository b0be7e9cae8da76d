"""A run starts from the file it names: all of the engine's tensors, or none of them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from making import make_cell, make_workload_cell
from trainmark.cli.main import main
from trainmark.plan.identity import cell_id
from trainmark.runfolder.document import RunDocument
from trainmark.spec.cell import StartWeights
from trainmark.weights.neutral import WeightsError, pack_weights
from trainmark.worker.fake.engine import FakeClock, FakeEngine
from trainmark.worker.start_weights import start_from_file
from trainmark.workloads.hrnet_w18.weights import tensor_shapes


def make_weights(path: Path, *, num_classes: int, value: float = 0.5) -> str:
    shapes = tensor_shapes(num_classes)
    arrays = {name: np.full(shape, value, np.float32) for name, shape in shapes.items()}
    path.write_bytes(pack_weights(arrays, {"workload": "x"}))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_engine() -> FakeEngine:
    engine = FakeEngine([0.1], clock=FakeClock())
    engine.import_weights({name: np.zeros(shape) for name, shape in tensor_shapes(7).items()})
    return engine


def run_from(path: Path, sha256: str, **changes: Any) -> RunDocument:
    cell = make_cell(workload="hrnet_w18", weights=StartWeights(path=str(path), sha256=sha256))
    document = RunDocument(cell=cell.record, weights={"path": str(path), "sha256": sha256})
    read = RunDocument.from_json(replace(document, **changes).to_json())
    assert read is not None
    return read


def test_the_engine_gets_all_that_fits(tmp_path: Path) -> None:
    sha256, engine = make_weights(tmp_path / "w.safetensors", num_classes=19), make_engine()
    facts = start_from_file(engine, run_from(tmp_path / "w.safetensors", sha256))["weights"]
    assert (facts["sha256"], facts["loaded"], facts["tensors"]) == (sha256, 1530, 1531)
    assert facts["kept"] == ["classify.weight"]
    assert facts["left_out"] == [
        {"name": "classify.weight", "why": "19x270x1x1 in the file, 7x270x1x1 in the model"},
    ]
    assert {float(array.flat[0]) for name, array in engine.weights.items() if name != "classify.weight"} == {0.5}
    assert not engine.weights["classify.weight"].any()
    assert all(array.dtype == np.float64 for array in engine.weights.values())  # the engine's own type


def test_a_changed_file_changes_nothing(tmp_path: Path) -> None:
    sha256, engine = make_weights(tmp_path / "w.safetensors", num_classes=7), make_engine()
    make_weights(tmp_path / "w.safetensors", num_classes=7, value=0.25)
    with pytest.raises(WeightsError, match="changed since the run was planned"):
        start_from_file(engine, run_from(tmp_path / "w.safetensors", sha256))
    assert not any(array.any() for array in engine.weights.values())


def test_a_resumed_training_keeps_its_own(tmp_path: Path) -> None:
    engine = make_engine()
    assert start_from_file(engine, run_from(tmp_path / "gone", "0", resumed_from="earlier")) == {}


def test_the_content_of_the_file_is_part_of_what_is_measured() -> None:
    plain = make_cell()
    one, moved, other = (
        replace(plain, weights=StartWeights(path=path, sha256=sha256))
        for path, sha256 in (("/a", "1"), ("/b", "1"), ("/a", "2"))
    )
    assert cell_id(one) == cell_id(moved) != cell_id(other)
    assert cell_id(plain) != cell_id(one)
    assert "weights" not in plain.to_json()  # cells without it keep the identity they had before
    assert make_workload_cell(weights=one.weights).weights == "1"


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_file_that_cannot_be_read_ends_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    store = tmp_path / "runs"
    missing = str(tmp_path / "missing.pth")
    assert main([command, "hrnet_w18", "--size", "small", "--store", str(store), "--weights", missing]) == 2
    assert "missing.pth: cannot be read" in capsys.readouterr().err
    assert not store.exists()


def test_weights_that_do_not_fit_end_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_weights(tmp_path / "w.safetensors", num_classes=19)
    store = tmp_path / "runs"
    options = ["--size", "small", "--store", str(store), "--weights", str(tmp_path / "w.safetensors")]
    assert main(["run", "resnet50", *options]) == 2
    assert "w.safetensors: the weights do not fit resnet50" in capsys.readouterr().err
    assert not store.exists()


def test_a_command_has_no_weights_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--weights", "w.pth", "--", "true"]) == 2
    assert "--weights" in capsys.readouterr().err
