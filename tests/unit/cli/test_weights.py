"""`trainmark weights`: a file for any framework, or an error with the reason and no file."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from making import make_cell, make_run
from trainmark.cli.main import main
from trainmark.runfolder.files import CHECKPOINT_FILE
from trainmark.weights.neutral import Weights, pack_weights
from trainmark.weights.reading import read_file
from trainmark.worker.array_checkpoint import write_state
from trainmark.workloads.hrnet_w18.weights import tensor_shapes

NUM_CLASSES = 3


@pytest.fixture(scope="module")
def values() -> Weights:
    rng = np.random.default_rng(0)
    return {name: rng.random(shape, dtype=np.float32) for name, shape in tensor_shapes(NUM_CLASSES).items()}


def make_training(root: Path, values: Weights, run_id: str = "training") -> Path:
    """As a JAX training leaves it, which keeps our names; the real ones of all frameworks are in e2e/test_training."""
    folder = make_run(root, run_id, cell=make_cell(workload="hrnet_w18", framework="jax", epochs=1))
    with (folder / CHECKPOINT_FILE).open("wb") as file:
        write_state({"model": values, "optimizer": {}, "progress": {}, "randomness": []}, file, framework="jax")
    return folder


def test_every_bit_is_written_with_what_it_belongs_to(
    tmp_path: Path, values: Weights, capsys: pytest.CaptureFixture[str]
) -> None:
    make_training(tmp_path / "s", values)
    target = tmp_path / "w.safetensors"
    assert main(["weights", "train", "--store", str(tmp_path / "s"), "--output", str(target)]) == 0
    following = f"trainmark run hrnet_w18 --size small --batch-size 4 --weights {target} --store {tmp_path / 's'}"
    assert f"next: {following}" in capsys.readouterr().err
    stored = read_file(target).stored
    assert stored.is_own
    known = {"workload": "hrnet_w18", "recipe": "reference", "card": "1", "framework": "jax", "run": "training"}
    assert {key: stored.about[key] for key in known} == known
    assert {name: tensor.read().tobytes() for name, tensor in stored.tensors.items()} == {
        name: array.tobytes() for name, array in values.items()
    }


def test_a_run_may_be_given_by_its_folder(
    tmp_path: Path, values: Weights, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_training(tmp_path / "s", values)
    monkeypatch.chdir(tmp_path)
    assert main(["weights", "s/training/", "--output", "w.safetensors"]) == 0
    assert "--store s" in capsys.readouterr().err


def test_a_plan_says_what_a_file_gives_and_that_one_of_another_network_does_not_fit(
    tmp_path: Path, values: Weights, capsys: pytest.CaptureFixture[str]
) -> None:
    make_training(tmp_path / "s", values)
    target = str(tmp_path / "w.safetensors")
    assert main(["weights", "training", "--store", str(tmp_path / "s"), "--output", target]) == 0
    for workload, code, said in (
        ("hrnet_w18", 0, "hrnet_w18 starts from w.safetensors (trainmark): "),
        ("psenet", 2, "w.safetensors: the weights do not fit psenet\n  why: it holds those of hrnet_w18"),
    ):
        capsys.readouterr()
        words = ["plan", workload, "--size", "small", "--weights", target, "--store", str(tmp_path / "other")]
        assert main(words) == code
        assert said in capsys.readouterr().err


def test_a_plan_for_other_machines_needs_no_data_here(tmp_path: Path, values: Weights) -> None:
    make_training(tmp_path / "s", values)
    target = str(tmp_path / "w.safetensors")
    assert main(["weights", "training", "--store", str(tmp_path / "s"), "--output", target]) == 0
    words = ["plan", "hrnet_w18", "--device", "cpu", "--data", "/elsewhere/cityscapes", "--weights", target]
    assert main([*words, "--launcher", "dry", "--store", str(tmp_path / "other")]) == 0


def test_a_run_without_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "s", "plain")
    assert refused(tmp_path, "plain") == 2
    assert "plain has no checkpoint" in capsys.readouterr().err


def test_more_than_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], values: Weights) -> None:
    for run_id in ("training-a", "training-b"):
        make_training(tmp_path / "s", values, run_id)
    assert refused(tmp_path, "training") == 2
    assert "2 runs have this beginning: training-a, training-b" in capsys.readouterr().err


def test_a_missing_tensor_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], values: Weights) -> None:
    name = next(name for name in values if name.endswith("running_var"))
    make_training(tmp_path / "s", {key: array for key, array in values.items() if key != name})
    assert refused(tmp_path, "training") == 2
    assert f"it lacks {name}" in capsys.readouterr().err


def test_a_missing_classifier_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], values: Weights) -> None:
    make_training(tmp_path / "s", {name: array for name, array in values.items() if not name.startswith("classify.")})
    assert refused(tmp_path, "training") == 2
    assert "it lacks, or has in another shape, classify." in capsys.readouterr().err


def test_values_that_are_not_finite(tmp_path: Path, capsys: pytest.CaptureFixture[str], values: Weights) -> None:
    name = next(iter(values))
    make_training(tmp_path / "s", {**values, name: np.full_like(values[name], math.nan)})
    assert refused(tmp_path, "training") == 2
    assert f"{name} has NaN or infinity" in capsys.readouterr().err


def test_a_file_of_somebody_else(tmp_path: Path, capsys: pytest.CaptureFixture[str], values: Weights) -> None:
    """A checkpoint is what the run wrote: a stranger's file in its place is not passed on under its name."""
    folder = make_training(tmp_path / "s", values)
    (folder / CHECKPOINT_FILE).write_bytes(pack_weights(values, {"trainmark": "something else"}))
    assert refused(tmp_path, "training") == 2
    assert "not the checkpoint of such a training" in capsys.readouterr().err


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str], values: Weights) -> None:
    make_training(tmp_path / "s", values)
    target = tmp_path / "missing" / "w.safetensors"
    assert main(["weights", "training", "--store", str(tmp_path / "s"), "--output", str(target)]) == 2
    assert "hint: create the folder: mkdir -p" in capsys.readouterr().err


def test_a_classifier_of_another_shape_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], values: Weights
) -> None:
    """Its shape depends on the data set, but only in the number of classes."""
    wider = np.zeros((NUM_CLASSES, 999, 1, 1), np.float32)
    make_training(tmp_path / "s", {**values, "classify.weight": wider})
    assert refused(tmp_path, "training") == 2
    assert "or has in another shape, classify.weight" in capsys.readouterr().err


def test_the_files_of_a_run_are_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], values: Weights
) -> None:
    checkpoint = make_training(tmp_path / "s", values) / CHECKPOINT_FILE
    before = checkpoint.read_bytes()
    (tmp_path / "link").symlink_to(checkpoint)
    for target, why in (
        (checkpoint, "is the folder of a run"),
        (tmp_path / "link", "is the folder of a run"),
        ("-", "to a file"),
    ):
        assert main(["weights", "training", "--store", str(tmp_path / "s"), "--output", str(target)]) == 2
        assert why in capsys.readouterr().err
    assert checkpoint.read_bytes() == before
    (tmp_path / "run.json").write_text("{}")  # of another program, such as the output of run --json
    target = tmp_path / "w.safetensors"
    assert main(["weights", "training", "--store", str(tmp_path / "s"), "--output", str(target)]) == 0


@pytest.mark.parametrize("name", ["w.pth", "w.PDPARAMS", "w.safetensors.gz"])
def test_a_name_of_another_format_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], values: Weights
) -> None:
    make_training(tmp_path / "s", values)
    words = ["weights", "training", "--store", str(tmp_path / "s"), "--output"]
    assert main([*words, str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert f"must not end in {Path(name).suffix}\n  why: a safetensors file is written to it\n  hint: use " in error
    assert not (tmp_path / name).exists()
    for allowed in ("w", "w-1.2", "w.SAFETENSORS"):
        assert main([*words, str(tmp_path / allowed)]) == 0


def refused(tmp_path: Path, run_id: str) -> int:
    """The exit code; nothing may be left of the file."""
    target = tmp_path / "out" / "w.safetensors"
    target.parent.mkdir()
    code = main(["weights", run_id, "--store", str(tmp_path / "s"), "--output", str(target)])
    assert list(target.parent.iterdir()) == []
    return code
