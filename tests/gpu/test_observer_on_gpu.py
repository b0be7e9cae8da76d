"""The observer on CUDA: events, graphs and loss scalers. Skipped where there is no GPU; CI has none.

One process per test, since the observer stays in a process once it is there; the scripts check themselves what only
they can see, such as their own events and that nothing waited for the device.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from trainmark import observe
from trainmark.store.observed_steps import read_observed

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

SETUP = """
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch
from torch import nn
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
def make(width=2048, depth=4):
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(depth))).cuda()
def show(net, **facts):
    import hashlib, json
    values = b"".join(p.detach().cpu().numpy().tobytes() for p in net.parameters())
    drawn = torch.rand(1, device="cuda").item()
    print(json.dumps({"weights": hashlib.sha256(values).hexdigest(), "random": drawn, **facts}))
"""
EVENTS = """
net = make(); opt = torch.optim.SGD(net.parameters(), lr=1e-4)
x = torch.randn(8192, 2048, device="cuda")
def step():
    opt.zero_grad(set_to_none=True); net(x).square().mean().backward(); opt.step()
    event = torch.cuda.Event(enable_timing=True); event.record()
    return event
step(); torch.cuda.synchronize()
torch.cuda.set_sync_debug_mode("error")
events = [step() for _ in range(60)]
torch.cuda.set_sync_debug_mode("default")
is_ahead = not events[-1].query()
torch.cuda.synchronize()
show(net, own_s=events[0].elapsed_time(events[-1]) / 1000, is_ahead=is_ahead)
"""
GRAPH = """
net = make(256, 2); opt = torch.optim.Adam(net.parameters(), lr=1e-4, capturable=True)
x = torch.randn(64, 256, device="cuda")
def step():
    opt.zero_grad(set_to_none=False); net(x).square().mean().backward(); opt.step()
side = torch.cuda.Stream(); side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3): step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph): step()
for _ in range(20): graph.replay()
torch.cuda.synchronize()
show(net)
"""
SCALER = """
net = make(256, 2); opt = torch.optim.SGD(net.parameters(), lr=1e-4, **OPTIONS)
scaler = torch.amp.GradScaler("cuda", init_scale=1024)
from torch.utils.data import DataLoader, TensorDataset
for number, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(160, 256)), batch_size=8)):
    opt.zero_grad()
    with torch.autocast("cuda"): loss = net(x.cuda()).float().square().mean()
    scaler.scale(loss * (float("inf") if number % 4 == 3 else 1)).backward()
    scaler.step(opt); scaler.update()
show(net, scale=scaler.get_scale())
"""
WORKERS = """
from torch.utils.data import DataLoader, TensorDataset
net = make(256, 2); opt = torch.optim.SGD(net.parameters(), lr=1e-4)
data = TensorDataset(torch.randn(80, 256))
for epoch in range(3):  # workers are forked anew for each epoch, after the first steps on the device
    for (x,) in DataLoader(data, batch_size=8, num_workers=2):
        opt.zero_grad(); net(x.cuda()).square().mean().backward(); opt.step()
show(net)
"""
COMPILED = """
net = make(256, 2); opt = torch.optim.SGD(net.parameters(), lr=1e-4)
fast = torch.compile(net, mode="reduce-overhead")
x = torch.randn(64, 256, device="cuda")
for _ in range(20):
    torch.compiler.cudagraph_mark_step_begin()
    opt.zero_grad(); fast(x).square().mean().backward(); opt.step()
torch.cuda.synchronize()
show(net)
"""


def run(folder: Path, code: str, *, is_observed: bool) -> dict[str, Any]:
    folder.mkdir()
    (folder / "script.py").write_text(SETUP + code)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RANK"))}
    if is_observed:
        environment |= {observe.VARIABLE: str(folder), "PYTHONPATH": observe.with_hook(None)}
    argv = [sys.executable, "-W", "ignore", str(folder / "script.py")]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def both(tmp_path: Path, code: str) -> tuple[dict[str, Any], Path]:
    """What the observed script printed, after a look that it is what it prints without the observer."""
    plain = run(tmp_path / "plain", code, is_observed=False)
    seen = run(tmp_path / "seen", code, is_observed=True)
    for name in ("weights", "random"):
        assert plain[name] == seen[name]
    notes = (tmp_path / "seen" / "observer.jsonl").read_text()
    assert '"failed"' not in notes, notes
    return seen, tmp_path / "seen"


def test_steps_are_device_time_and_nothing_waits(tmp_path: Path) -> None:
    seen, folder = both(tmp_path, EVENTS)
    observed = read_observed(folder)
    assert observed is not None
    assert observed.counts == (60,)
    # The first step before the clock of the script is the observer's step 1.
    assert observed.seconds[1:].sum() == pytest.approx(seen["own_s"], rel=0.01)
    assert seen["is_ahead"]


def test_a_captured_step_counts_at_each_replay(tmp_path: Path) -> None:
    _, folder = both(tmp_path, GRAPH)
    observed = read_observed(folder)
    assert observed is not None
    assert observed.counts == (22,)  # three before the capture and twenty replays, of which the first starts the clock


@pytest.mark.parametrize(("options", "skipped"), [("{}", 5), ("dict(foreach=True)", 5), ("dict(fused=True)", 0)])
def test_skipped_steps_of_a_loss_scaler_are_steps(tmp_path: Path, options: str, skipped: int) -> None:
    """A fused optimizer is called for a skipped step too, and decides on the device: the count cannot know."""
    _, folder = both(tmp_path, SCALER.replace("**OPTIONS", f"**{options}"))
    observed = read_observed(folder)
    assert observed is not None
    assert observed.counts == (19,)
    assert observed.samples.tolist() == [8.0] * 19
    assert observed.num_skipped == skipped


def test_workers_of_a_data_loader_that_are_forked_later(tmp_path: Path) -> None:
    _, folder = both(tmp_path, WORKERS)
    observed = read_observed(folder)
    assert observed is not None
    assert observed.counts == (29,)
    assert set(observed.samples.tolist()) == {8.0}


def test_a_compiled_model_with_graphs(tmp_path: Path) -> None:
    _, folder = both(tmp_path, COMPILED)
    observed = read_observed(folder)
    assert observed is not None
    assert observed.counts == (19,)
