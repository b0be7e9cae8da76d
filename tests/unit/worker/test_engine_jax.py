"""The JAX engine on the CPU, with a small network: steps, time marks, checkpoints, data, two processes, refusals."""

from __future__ import annotations

import io
import itertools
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_jax import jax, shrink_resnet

from making import make_images, make_workload_cell
from stepping import losses_of
from trainmark.errors import InputError
from trainmark.weights.loading import load_start
from trainmark.worker.checkpoint import CheckpointRefusedError
from trainmark.worker.jax import is_out_of_memory
from trainmark.worker.jax.engine import JaxEngine
from trainmark.worker.jax.step import Precision, Scaler
from trainmark.worker.parcels import pack, unpack

pytestmark = pytest.mark.jax


def build(**changes: Any) -> JaxEngine:
    return JaxEngine(make_workload_cell(**{"framework": "jax", "batch_size_per_device": 4, **changes}))


@pytest.fixture(scope="module")
def engine() -> Iterator[JaxEngine]:
    with pytest.MonkeyPatch.context() as patch:
        shrink_resnet(patch)
        built = build()
        yield built
        built.close()


def test_a_checkpoint_resumes_bit_for_bit(engine: JaxEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "learning_rate", lambda _: 0.01)  # the first steps of a warm-up change no digit
    first = losses_of(engine, 3)
    engine.save(tmp_path / "checkpoint", {"num_steps": 3.0})
    saved = engine.export_weights()
    shapes = {name: array.shape for name, array in saved.items()}
    start = load_start(tmp_path / "checkpoint", workload="resnet50", shapes=shapes, recipe="reference", seed=0)
    assert start.kept == ()
    assert all(np.array_equal(saved[name], value) for name, value in start.arrays.items()), "--weights"
    after = losses_of(engine, 3)
    weights = engine.export_weights()
    assert engine.restore(tmp_path / "checkpoint") == {"num_steps": 3.0}
    assert losses_of(engine, 3) == after
    assert all(np.array_equal(weights[name], value) for name, value in engine.export_weights().items())
    assert engine.weights_changed()
    assert after[-1] < first[0], "it learns its one batch"


def test_marks_are_passed_in_order_and_never_wait(engine: JaxEngine) -> None:
    marks = [engine.timestamp()]
    for _ in range(3):
        engine.step()
        marks.append(engine.timestamp())
    engine.wait()
    assert all(engine.is_done(mark) for mark in marks)
    assert all(engine.seconds_between(one, other) > 0 for one, other in itertools.pairwise(marks))


def test_weights_come_back_bit_for_bit_and_others_are_refused(engine: JaxEngine) -> None:
    weights = engine.export_weights()
    assert weights["conv1.weight"].shape == (8, 3, 7, 7), "as PyTorch has it"
    doubled = {name: 2 * value for name, value in weights.items()}
    engine.import_weights(doubled)
    assert all(np.array_equal(doubled[name], value) for name, value in engine.export_weights().items())
    assert not engine.weights_changed()
    engine.import_weights(weights)
    with pytest.raises(InputError, match=r"missing: fc\.bias"):
        engine.import_weights({name: value for name, value in weights.items() if name != "fc.bias"})


def test_a_checkpoint_that_is_not_ours_is_refused(engine: JaxEngine, tmp_path: Path) -> None:
    engine.save(tmp_path / "good", {"num_steps": 1.0})
    (tmp_path / "cut").write_bytes((tmp_path / "good").read_bytes()[:5000])
    (tmp_path / "text").write_text("not a checkpoint")
    np.savez(tmp_path / "objects.npz", plain=np.array([{}], dtype=object))
    with zipfile.ZipFile(tmp_path / "compressed", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("plain.npy", b"0" * 1000)
    np.savez(tmp_path / "other.npz", plain=np.array(json.dumps({"progress": {"num_steps": 1}, "randomness": [None]})))
    reasons = {}
    for name in ("cut", "text", "objects.npz", "compressed", "other.npz"):
        with pytest.raises(CheckpointRefusedError) as caught:
            engine.restore(tmp_path / name)
        reasons[name] = str(caught.value)
    assert "could run code" in reasons["objects.npz"]
    assert "compressed" in reasons["compressed"]
    assert "not a trainmark checkpoint" in reasons["other.npz"]
    assert engine.restore(tmp_path / "good") == {"num_steps": 1.0}


def test_facts_say_what_was_switched_on(engine: JaxEngine) -> None:
    facts = engine.facts()
    assert facts["framework"] == f"jax {jax.__version__}"
    assert facts["flags"]["tf32_matmul"] is False
    assert facts["flags"]["layout"] == "NHWC"
    assert engine.gradient_bytes() == 4 * facts["num_parameters"]


def test_fp16_skips_a_step_that_overflows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And generated images are trained and evaluated."""
    shrink_resnet(monkeypatch)
    engine = build(precision="amp", data=str(make_images(tmp_path)), batch_size_per_device=2)
    step = engine._train_step
    step.state = step.state._replace(scaler=Scaler(scale=jax.numpy.float32(2.0**40), num_good=jax.numpy.int32(3)))
    before = engine._trained()
    engine.step()
    assert all(np.array_equal(before[name], value) for name, value in engine._trained().items())
    assert float(step.state.scaler.scale) == 2.0**39
    assert int(step.state.scaler.num_good) == 0
    step.state = step.state._replace(scaler=Scaler(scale=jax.numpy.float32(8.0), num_good=jax.numpy.int32(3)))
    monkeypatch.setattr(engine, "learning_rate", lambda _: 0.01)
    assert np.isfinite(losses_of(engine, 2)).all()
    assert all(not np.array_equal(before[name], value) for name, value in engine._trained().items())
    assert int(step.state.scaler.num_good) == 5
    metrics = engine.evaluate()
    assert metrics is not None
    assert 0 <= metrics["top1"] <= metrics["top5"] <= 1
    engine.close()


def test_two_processes_train_one_model(tmp_path: Path) -> None:
    images = make_images(tmp_path)
    here = Path(__file__).parent
    argv = [sys.executable, "-m", "trainmark.launch.spawn_ranks", "--processes", "2", "--", sys.executable]
    # However quick it was to compile: JAX keeps only what took a second.
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **cache}
    subprocess.run(
        [*argv, str(here / "jax_ranks.py"), str(images), str(tmp_path)], check=True, timeout=540, env=environment
    )
    first, second = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2))
    assert first["losses"] != second["losses"], "each has its own part of the batch"
    assert first["weight_norms"] == second["weight_norms"]
    assert first["metrics"] == second["metrics"]
    assert first["agreed"] == second["agreed"] == [1, [5]]
    assert first["slowest"] == second["slowest"] == 1.0
    assert first["all_reduce"] >= 1
    assert (tmp_path / "checkpoint").exists()
    own = [np.load(tmp_path / f"own{rank}.npz") for rank in range(2)]
    means = [np.load(tmp_path / f"mean{rank}.npz") for rank in range(2)]
    for name in own[0]:
        assert not np.array_equal(own[0][name], own[1][name]), name
        np.testing.assert_array_equal(means[0][name], means[1][name])
        mean = (own[0][name] + own[1][name]) / 2
        # Two programs, which XLA may round differently, and an untrained network makes 2% of that. A sum instead of
        # the mean, or no exchange, differs by about 1.
        assert np.linalg.norm(means[0][name] - mean) <= 0.1 * np.linalg.norm(mean) + 1e-7, name
    steps = [path.name for path in (tmp_path / "cache").iterdir() if path.name.startswith("jit__step-")]
    assert len(set(steps)) == 8, f"each process keeps its four programs for the next run: {steps}"


def test_precisions_that_it_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match="fp32, tf32, bf16 and amp"):
        Precision(name="fp16")


def test_memory_errors_are_told_from_others() -> None:
    assert is_out_of_memory(RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes"))
    assert not is_out_of_memory(RuntimeError("shape mismatch"))


def test_ranks_exchange_values_and_arrays() -> None:
    statistics = np.arange(6, dtype=np.float32).reshape(2, 3)
    sent = [
        "host",
        {"a": 1.5, "b": None, "c": [True, "ü\n"]},
        {"mean": statistics, "n": np.int64(3)},
        (1, float("inf")),
    ]
    found = unpack(pack(sent))
    assert found[:2] == sent[:2]
    assert found[2]["mean"].dtype == np.float32
    np.testing.assert_array_equal(found[2]["mean"], statistics)
    assert found[2]["n"] == 3
    assert found[3] == [1, float("inf")]
    np.testing.assert_array_equal(unpack(pack(np.array(2.0))), np.array(2.0))
    assert b"\n" not in pack([0.1, 2]), "no archive where there is no array"
    assert unpack(pack([0.1 + 0.2])) == [0.1 + 0.2], "to the last bit"


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("ran"),)


def test_nothing_that_a_rank_sends_can_run_code() -> None:
    for value in (Hostile(), {1: 2}, b"bytes"):
        with pytest.raises(TypeError):
            pack(value)
    with pytest.raises(ValueError, match="allow_pickle"):
        pack(np.array([Hostile()], dtype=object))
    body = io.BytesIO()
    np.savez(body, np.array([Hostile()], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        unpack(b'{"array of the parcel": 0}\n' + body.getvalue())
    assert not Path("ran").exists()
