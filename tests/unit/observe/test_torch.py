"""The observer inside real PyTorch: one process, each script in a fork of it with its own rank.

The observer is installed by hand, after a first script ran without it; `test_hook.py` tests how it gets into processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from trainmark import observe

SCRIPT = """
import os, sys, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)

def model(): return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
def data(n=40): return TensorDataset(torch.randn(n, 8), torch.randint(0, 2, (n,)))
def loss_of(net, x, y): return nn.functional.cross_entropy(net(x), y)

def plain(out):
    "Two epochs of 40 samples in batches of 16; an evaluation in between, without no_grad around the loop."
    torch.manual_seed(3)
    net = model(); opt = torch.optim.AdamW(net.parameters())
    for epoch in range(2):
        net.train()
        for x, y in DataLoader(TRAIN, batch_size=16, shuffle=True):
            opt.zero_grad(); loss_of(net, x, y).backward(); opt.step()
        net.eval()
        for x, y in DataLoader(VALID, batch_size=16):
            with torch.no_grad(): net(x)
        torch.save(net, out + ".pt")
    print("loss", loss_of(net, *TRAIN[:40]).item().hex(), torch.rand(1).item().hex())

def accumulating(out):
    net = model(); opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for number, (x, y) in enumerate(DataLoader(TRAIN, batch_size=4)):
        loss_of(net, x, y).backward()
        if number % 2: opt.step(); opt.zero_grad()

def gan(out):
    d, g = model(), model()
    opt_d, opt_g = torch.optim.Adam(d.parameters()), torch.optim.Adam(g.parameters())
    for x, y in DataLoader(TRAIN, batch_size=8):
        loss_of(d, x, y).backward(); opt_d.step()
        loss_of(g, x, y).backward(); opt_g.step()

def scaled(out):
    "Every second step has infinite gradients."
    net = model(); opt = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for number, (x, y) in enumerate(DataLoader(TRAIN, batch_size=8)):
        opt.zero_grad()
        scaler.scale(loss_of(net, x, y) * (float("inf") if number % 2 else 1)).backward()
        scaler.step(opt); scaler.update()

class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 10))
    def forward(self, tokens, targets=None):
        return nn.functional.cross_entropy(self.body(tokens).flatten(0, 1), targets.flatten())

def language(out):
    "No data loader: the input of the model says how large a batch is. An evaluation after the third step."
    net = Language(); opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for number in range(6):
        for _ in range(2):
            x = torch.randint(0, 10, (4, 6)); net(x, x).backward()
        opt.step(); opt.zero_grad()
        if number == 2:
            net.eval()
            with torch.no_grad(): net(x, x)
            net.train()
    torch.save(net, out + ".pt"); torch.load(out + ".pt", weights_only=False)
    torch.jit.trace(net.body, x)

def by_hand(out):
    net = Language()
    for _ in range(4):
        x = torch.randint(0, 10, (4, 6)); net(x, x).backward()
        with torch.no_grad():
            for p in net.parameters(): p -= 0.1 * p.grad; p.grad = None

class Ragged(Dataset):
    def __len__(self): return 10
    def __getitem__(self, index): return torch.zeros(3, 8 + index, 8), {"boxes": torch.zeros(index, 4)}

def ragged(out):
    "Detection: images of different sizes, and two workers that fetch ahead."
    net = nn.Linear(8, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for images, targets in DataLoader(Ragged(), batch_size=4, collate_fn=lambda b: tuple(zip(*b)), num_workers=2):
        sum(net(image).sum() for image in images).backward(); opt.step()

def in_a_fork(name, out):
    if os.fork() == 0:
        import atexit
        globals()[name](out)
        atexit._run_exitfuncs()
        sys.stdout.flush(); os._exit(0)
    code = os.waitstatus_to_exitcode(os.wait()[1])
    assert code == 0, (name, code)

if __name__ == "__main__":
    folder, hooks, *names = sys.argv[1:]
    torch.manual_seed(0)
    TRAIN, VALID = data(), data(24)
    torch.optim.SGD(model().parameters())  # loads what every optimizer needs, once for all forks
    in_a_fork("plain", folder + "/unobserved")
    sys.path.insert(0, hooks)
    import framework_hooks
    framework_hooks.install(torch, folder)
    for rank, name in enumerate(names):
        os.environ["RANK"] = str(rank)
        in_a_fork(name, folder + "/observed")
"""
NAMES = ["plain", "accumulating", "gan", "scaled", "language", "by_hand", "ragged"]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The step records of each script, and what was printed."""
    folder = tmp_path_factory.mktemp("torch")
    (folder / "script.py").write_text(SCRIPT)
    environment = {name: value for name, value in os.environ.items() if name not in (observe.VARIABLE, "RANK")}
    hooks = str(observe.HOOK_FOLDER.parent)
    argv = [sys.executable, "-W", "ignore", str(folder / "script.py"), str(folder), hooks, *NAMES]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = {"printed": done.stdout, "folder": folder}
    for rank, name in enumerate(NAMES):
        lines = (folder / f"rank{rank}.observed.jsonl").read_text().splitlines()
        found[name] = [json.loads(line) for line in lines]
    notes = [json.loads(line) for line in (folder / "observer.jsonl").read_text().splitlines()]
    found["failed"] = [note["what"] for note in notes if note["kind"] == "failed"]
    return found


def steps(records: list[dict[str, Any]], signal: str = "optimizer") -> list[dict[str, Any]]:
    start = max(n for n, record in enumerate(records) if record.get("signal") == signal)
    return [record for record in records[start:] if record["kind"] == "step"]


def test_nothing_failed_inside(observed: dict[str, Any]) -> None:
    assert observed["failed"] == []


def test_results_and_random_state_are_bit_identical(observed: dict[str, Any]) -> None:
    unobserved, first = observed["printed"].splitlines()[:2]
    assert unobserved.startswith("loss 0x")
    assert unobserved == first


def test_a_saved_model_holds_nothing_of_ours(observed: dict[str, Any]) -> None:
    assert b"trainmark" not in (observed["folder"] / "observed.pt").read_bytes()


def test_epochs_with_an_evaluation_and_a_checkpoint(observed: dict[str, Any]) -> None:
    found = steps(observed["plain"])
    assert [step["samples"] for step in found] == [16, 8, 16, 16, 8]
    assert [set(step.get("beside", [])) for step in found] == [
        set(), set(), {"eval", "checkpoint", "restart"}, set(), set()]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "samples"), [("accumulating", [8] * 4), ("gan", [8] * 4), ("scaled", [8] * 4), ("ragged", [4, 2])]
)
def test_samples_of_each_step(observed: dict[str, Any], name: str, samples: list[int]) -> None:
    assert [step["samples"] for step in steps(observed[name])] == samples


def test_skipped_steps_are_reported(observed: dict[str, Any]) -> None:
    assert [record["count"] for record in observed["scaled"] if record["kind"] == "skipped_steps"] == [2]


def test_without_a_data_loader_the_input_of_the_model_counts(observed: dict[str, Any]) -> None:
    found = steps(observed["language"])
    assert [step["tokens"] for step in found] == [48] * 5
    assert not any("samples" in step for step in found), "text may be (batch, time) or (time, batch)"
    assert all(step["language"] for step in found)
    assert [step.get("beside") for step in found] == [None, None, ["eval"], None, None]


def test_parameters_updated_by_hand_have_a_step_per_backward_pass(observed: dict[str, Any]) -> None:
    found = steps(observed["by_hand"], "backward")
    assert len(found) == 3
    assert found[-1]["tokens"] == 24
