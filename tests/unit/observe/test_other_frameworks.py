"""The observer inside real Paddle, Keras and JAX, where they are installed.

They are large and not part of the locks: TRAINMARK_TEST_PYTHON may name another interpreter that has them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainmark import observe

PYTHON = os.environ.get("TRAINMARK_TEST_PYTHON", sys.executable)

PADDLE = """
import paddle
from paddle.io import DataLoader, TensorDataset
net = paddle.nn.Linear(8, 2)
train = TensorDataset([paddle.randn([40, 8]), paddle.randint(0, 2, [40])])
valid = TensorDataset([paddle.randn([24, 8]), paddle.randint(0, 2, [24])])
opt = paddle.optimizer.AdamW(parameters=net.parameters())
for epoch in range(2):
    net.train()
    for x, y in DataLoader(train, batch_size=16):
        paddle.nn.functional.cross_entropy(net(x), y).backward(); opt.step(); opt.clear_grad()
    net.eval()
    for x, y in DataLoader(valid, batch_size=8): net(x)
    paddle.save(net.state_dict(), OUT)
"""
KERAS = """
import keras, numpy
net = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(2)])
net.compile("adam", "mse")
x, y = numpy.ones((40, 8), "float32"), numpy.zeros((40, 2), "float32")
net.fit(x, y, batch_size=16, epochs=2, validation_data=(x[:20], y[:20]), verbose=0)
"""
JAX = """
import functools, jax, jax.numpy as jnp
@functools.partial(jax.jit, donate_argnums=(0,))
def step(w, batch, key):
    loss, slope = jax.value_and_grad(lambda w: jnp.mean((batch["x"] @ w - batch["y"]) ** 2))(w)
    return w - 0.01 * slope, loss
@jax.jit
def evaluate(w, x): return x @ w
w = jnp.ones((8, 3))
for number in range(6):
    batch = {"x": jnp.ones((16, 8)), "y": jnp.zeros((16, 3))}
    w, loss = step(w, batch, jax.random.PRNGKey(number)); evaluate(w, batch["x"])
assert step.lower(w, batch, jax.random.PRNGKey(0)).compile() is not None
"""
JAX_AHEAD = """
import functools, json, time, jax, jax.numpy as jnp
@functools.partial(jax.jit, donate_argnums=(0,))
def step(w, x):
    def loss(w):
        y = x
        for _ in range(20): y = jnp.tanh(y @ w)
        return y.sum()
    value, slope = jax.value_and_grad(loss)(w)
    return w - 1e-6 * slope, value
w, x = jnp.eye(256), jnp.ones((256, 256))
w, value = step(w, x); value.block_until_ready()
begin = time.perf_counter()
for number in range(8): w, value = step(w, x)
started = time.perf_counter()
value.block_until_ready()
with open(OUT, "w") as file: json.dump({"started": started - begin, "done": time.perf_counter() - begin}, file)
"""


def steps_of(folder: Path, framework: str, code: str, **variables: str) -> list[dict[str, Any]]:
    if subprocess.run(
        [PYTHON, "-c", f"import {framework}"], capture_output=True, env={**os.environ, **variables}
    ).returncode:
        pytest.skip(f"{framework} is not installed")
    script = folder / "script.py"
    script.write_text(code.replace("OUT", repr(str(folder / "saved"))))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | variables
    environment |= {observe.VARIABLE: str(folder), "PYTHONPATH": observe.with_hook(None)}
    done = subprocess.run([PYTHON, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    notes = [json.loads(line) for line in (folder / "observer.jsonl").read_text().splitlines()]
    assert [note["what"] for note in notes if note["kind"] == "failed"] == []
    lines = [json.loads(line) for line in (folder / "rank0.observed.jsonl").read_text().splitlines()]
    start = max(number for number, line in enumerate(lines) if line["kind"] == "run_start")
    assert lines[start]["framework"] == framework
    return [line for line in lines[start:] if line["kind"] == "step"]


def test_paddle(tmp_path: Path) -> None:
    found = steps_of(tmp_path, "paddle", PADDLE)
    assert [step["samples"] for step in found] == [16, 8, 16, 16, 8]
    assert [set(step.get("beside", [])) for step in found][2] == {"eval", "checkpoint", "restart"}


@pytest.mark.parametrize("backend", ["jax", "tensorflow", "torch"])
def test_keras(tmp_path: Path, backend: str) -> None:
    found = steps_of(tmp_path, "keras", KERAS, KERAS_BACKEND=backend)
    assert [step["samples"] for step in found] == [16, 8, 16, 16, 8]
    assert "eval" in found[2]["beside"]


def test_jax(tmp_path: Path) -> None:
    assert [step["samples"] for step in steps_of(tmp_path, "jax", JAX)] == [16] * 5


def test_a_step_of_jax_lasts_until_its_result_is_there(tmp_path: Path) -> None:
    """The script starts all steps at once and waits at the end, which no step of the host's clock would show."""
    found = steps_of(tmp_path, "jax", JAX_AHEAD)
    own = json.loads((tmp_path / "saved").read_text())
    assert len(found) == 8
    assert not any(step.get("dispatched") for step in found)
    assert sum(step["seconds"] for step in found) > 0.5 * own["done"]
