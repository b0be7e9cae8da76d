"""What does the observer cost, and does it change a result? On CPU or CUDA.

    python benchmarks/observer_cost.py [--device cuda] [--pairs 30] [--steps 20] [--script language,images]

Two scripts like nanoGPT (a small GPT, batches from memory, AdamW, gradient accumulation) and like timm (a
convolutional network, data loader, mixed precision with a loss scaler on CUDA) train with deterministic algorithms.
Both ways of a script run at the same time, in two processes that take turns: one trains a block of steps while the
other waits, in an order that alternates, so that a pair of blocks is seconds apart and no start of a process is
timed. Printed: the median relative cost of the pairs with a 95% interval of the sign test, and whether all losses are
bit-identical. At the end (`--alone`: only) the processor time that one observed step takes on the host: a hook call,
a batch and a record, before and after the observer is installed in one process that trains nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(_ROOT / "src"))

from trainmark import observe  # noqa: E402

_SETUP = """
import hashlib, json, os, sys, time
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch
from torch import nn
device, num_steps = sys.argv[1], int(sys.argv[2])
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
big = device == "cuda"
def clock():
    "On a CPU the processor time: other programs run there too."
    if device == "cuda": torch.cuda.synchronize()
    return time.perf_counter() if device == "cuda" else time.process_time()
def serve(step):
    "Trains a block of steps for each line of the input and prints its seconds; the first blocks warm up."
    losses = []
    def block():
        begin = clock()
        losses.extend(step() for _ in range(num_steps))
        return clock() - begin
    block(), block()
    for line in sys.stdin:
        print(block(), flush=True)
    values = torch.stack(losses).cpu().double().numpy().tobytes()
    print(hashlib.sha256(values).hexdigest(), flush=True)
"""
_SCRIPTS = {
    "language": """
width, depth, batch, length = (768, 12, 12, 1024) if big else (64, 2, 8, 64)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    def forward(self, x):
        q, k, v = (t.unflatten(-1, (-1, 64)).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
        # Written out: the deterministic one on every device.
        score = (q @ k.transpose(-1, -2)) / 8 + mask
        x = x + self.out((score.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.n2(x))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.blocks = nn.Embedding(512, width), nn.Sequential(*(Block() for _ in range(depth)))
        self.head = nn.Linear(width, 512, bias=False)
    def forward(self, tokens, targets):
        logits = self.head(self.blocks(self.wte(tokens)))
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
mask = torch.full((length, length), float("-inf"), device=device).triu(1)
model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
data = torch.randint(0, 512, (100_000,))
def get_batch():
    starts = torch.randint(0, len(data) - length - 1, (batch,))
    x = torch.stack([data[i : i + length] for i in starts.tolist()])
    return x.to(device), x.roll(-1, 1).to(device)
def step():
    for _ in range(2):
        with torch.autocast(device, dtype=torch.bfloat16, enabled=big): loss = model(*get_batch()) / 2
        loss.backward()
    optimizer.step(); optimizer.zero_grad(set_to_none=True)
    return loss.detach()
serve(step)
""",
    "images": """
from torch.utils.data import DataLoader, Dataset
batch, size, width, depth = (128, 64, 256, 8) if big else (16, 32, 8, 0)
class Images(Dataset):
    def __len__(self): return 1 << 20
    def __getitem__(self, index): return images[index % 64], index % 10
images = torch.randn(64, 3, size, size)
def block(a, b): return nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU())
middle = [nn.Conv2d(2 * width, 2 * width, 3, 1, 1) for _ in range(depth)]
model = nn.Sequential(block(3, width), block(width, 2 * width), *middle, block(2 * width, 4 * width),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10)).to(device)
torch.use_deterministic_algorithms(True, warn_only=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scaler = torch.amp.GradScaler(device, enabled=big)
batches = iter(DataLoader(Images(), batch_size=batch, num_workers=0))
def step():
    x, y = next(batches)
    with torch.autocast(device, enabled=big):
        loss = nn.functional.cross_entropy(model(x.to(device, non_blocking=True)), y.to(device))
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()
    return loss.detach()
serve(step)
""",
}
_ALONE = """
from torch.utils.data import DataLoader, TensorDataset
parameter = nn.Parameter(torch.zeros(1, device=device))
optimizer = torch.optim.SGD([parameter], lr=0.0)
data = TensorDataset(torch.zeros(400, 1), torch.zeros(400))
def loop():
    begin = time.process_time()
    for x, y in DataLoader(data, batch_size=1): optimizer.step()
    return (time.process_time() - begin) / 400
def best(): return min(loop() for _ in range(100))  # short and often: other programs run too
before = best()
sys.path.insert(0, sys.argv[3])
import framework_hooks
framework_hooks.install(torch, sys.argv[4])
print(json.dumps({"seconds": best() - before}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", type=int, default=30, help="of blocks, one with and one without the observer")
    parser.add_argument("--steps", type=int, default=20, help="of a block")
    parser.add_argument("--script", default="language,images")
    parser.add_argument("--alone", action="store_true", help="only the time of an observed step on the host")
    args = parser.parse_args()
    if not args.alone:
        for name in args.script.split(","):
            compare(name, args.device, pairs=args.pairs, steps=args.steps)
    measure_alone(args.device)


def compare(name: str, device: str, *, pairs: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(_SETUP + _SCRIPTS[name])
        trainings = {is_observed: Training(script, device, steps, is_observed) for is_observed in (True, False)}
        found: dict[bool, list[float]] = {True: [], False: []}
        for number in range(pairs):
            for is_observed in (True, False) if number % 2 else (False, True):
                found[is_observed].append(trainings[is_observed].train())
        digests = {training.finish() for training in trainings.values()}
        if not list(Path(folder).glob("rank*.observed.jsonl")):
            sys.exit(f"nothing was observed: {(Path(folder) / 'observer.jsonl').read_text()}")
    ratios = sorted(seen / plain - 1 for seen, plain in zip(found[True], found[False], strict=True))
    low, high = _interval(ratios)
    same = "bit-identical" if len(digests) == 1 else "different"
    print(
        f"{name} on {device}: cost {statistics.median(ratios):+.2%} (95% {low:+.2%} to {high:+.2%}, {pairs} pairs of "
        f"{steps} steps of {statistics.median(found[False]) / steps * 1000:.2f} ms); losses {same}",
        flush=True,
    )


class Training:
    """A process that trains a block of steps when it is told to."""

    def __init__(self, script: Path, device: str, steps: int, is_observed: bool) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RANK"))}
        if is_observed:
            environment |= {observe.VARIABLE: str(script.parent), "PYTHONPATH": observe.with_hook(None)}
        argv = [sys.executable, "-W", "ignore", str(script), device, str(steps)]
        self._process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def train(self) -> float:
        """Seconds of the block."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        return float(self._read())

    def finish(self) -> str:
        """A digest of all losses."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        digest = self._read()
        self._process.wait()
        return digest

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return line.strip() or sys.exit(f"the script ended with {self._process.wait()}")


def measure_alone(device: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(_SETUP + _ALONE)
        argv = [sys.executable, str(script), device, "0", str(observe.HOOK_FOLDER.parent), folder]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    cost_us = json.loads(done.stdout.splitlines()[-1])["seconds"] * 1e6
    print(f"one observed step on {device}: {cost_us:.1f} µs on the host, 0.5% of a step of {cost_us / 5:.1f} ms")


def _interval(ordered: list[float]) -> tuple[float, float]:
    """Of the median, by the sign test: exact for any distribution; the whole range below six pairs."""
    size = len(ordered)
    below, tail, term = 0, 0.0, 0.5**size
    for k in range(size // 2):
        tail += term
        if 2 * tail > 0.05:
            break
        below, term = k + 1, term * (size - k) / (k + 1)
    cut = max(below - 1, 0)
    return ordered[cut], ordered[size - 1 - cut]


if __name__ == "__main__":
    begin = time.time()
    main()
    print(f"took {time.time() - begin:.0f} s", file=sys.stderr)
