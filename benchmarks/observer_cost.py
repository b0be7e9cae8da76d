"""What does the observer cost, and does it change a result? On CPU or CUDA.

    python benchmarks/observer_cost.py [--device cuda] [--pairs 100] [--block-s 0.15] [--limit-s 300]
        [--script language,images] [--processes 2]

Two scripts like nanoGPT (a GPT, batches from memory, AdamW, gradient accumulation) and like timm (a residual network,
a data loader with workers, mixed precision with a loss scaler on CUDA) train with deterministic algorithms.

The cost is measured inside one process per script, since two processes differ by more than the observer costs, even
without it. There everything that the observer changed in PyTorch is put in and taken out again between short blocks of
steps: with, without, without, with. Printed as it goes: the median over the pairs of blocks of the time with the
observer relative to that without, and a 95% interval of the sign test; and the same of pairs of blocks without it,
which is what such a comparison finds where there is nothing to find.

`--processes N` compares results instead: N processes with the observer, started as `trainmark run` does, and N without
train the same steps. Printed: whether all losses are bit-identical, and the cost between processes.

At the end (`--alone`: only) the processor time that one observed step takes on the host: a hook call, a batch and a
record, before and after the observer is installed in one process that trains nothing.
"""

from __future__ import annotations

import argparse
import itertools
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
device = sys.argv[1]
WARM_UP = 6
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
big = device == "cuda"
def clock():
    "On a CPU the processor time: other programs run there too."
    if device == "cuda": torch.cuda.synchronize()
    return time.perf_counter() if device == "cuda" else time.process_time()
class Observer:
    "Everything that the observer changes in PyTorch, to be put in and taken out again."
    def __init__(self, package, folder, model):
        import importlib
        sys.path.insert(0, package)
        import framework_hooks
        loader = importlib.import_module("torch.utils.data.dataloader")._BaseDataLoaderIter
        scaler = importlib.import_module("torch.amp.grad_scaler").GradScaler
        self.hooks = importlib.import_module("torch.optim.optimizer")._global_optimizer_post_hooks
        self.owners = [torch, torch.autograd, nn.Module, loader, scaler, torch.cuda.CUDAGraph, type(model)]
        self.before = [dict(vars(owner)) for owner in self.owners]
        framework_hooks.install(torch, folder)
    def learn(self):
        "After the first steps: only then the class of the model has changed too."
        self.changes = []
        for owner, before in zip(self.owners, self.before):
            for name, value in dict(vars(owner)).items():
                if name in before and before[name] is not value or name == "__call__" and name not in before:
                    self.changes.append((owner, name, before.get(name), value))
        self.hook = dict(self.hooks)
        names = {name for _, name, _, _ in self.changes}
        if not self.hook or not names >= {"backward", "save", "__next__", "step"}:
            sys.exit(f"the observer is not there: {names}")
    def turn(self, is_on):
        self.hooks.clear()
        self.hooks.update(self.hook if is_on else {})
        for owner, name, old, new in self.changes:
            if is_on or old is not None: setattr(owner, name, new if is_on else old)
            elif name in vars(owner): delattr(owner, name)
def serve(step, model):
    "Trains as many steps as each line of the input says and prints their seconds, or a digest of all losses."
    observer = Observer(*sys.argv[2:], model) if len(sys.argv) > 2 else None
    losses = []
    def block(num_steps):
        begin = clock()
        losses.extend(step() for _ in range(num_steps))
        return clock() - begin
    block(WARM_UP)
    if observer: observer.learn()
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "digest":
            values = torch.stack(losses).cpu().double().numpy().tobytes()
            print(hashlib.sha256(values).hexdigest(), flush=True)
            continue
        if observer: observer.turn(words[1] == "on")
        print(block(int(words[0])), flush=True)
"""
_SCRIPTS = {
    "language": """
width, depth, batch, length = (768, 12, 16, 1024) if big else (64, 2, 8, 64)
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
serve(step, model)
""",
    "images": """
from torch.utils.data import DataLoader, Dataset
batch, size, width, depth = (384, 160, 128, 3) if big else (16, 32, 8, 1)
images = torch.randint(0, 256, (64, 3, size, size), dtype=torch.uint8)
class Images(Dataset):
    def __len__(self): return 1 << 20
    def __getitem__(self, index): return images[index % 64], index % 10
def conv(a, b, kernel=3, stride=1):
    return nn.Sequential(nn.Conv2d(a, b, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(b))
class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.body = nn.Sequential(conv(a, b, 1), nn.ReLU(), conv(b, b, 3, stride), nn.ReLU(), conv(b, 4 * b, 1))
        self.short = conv(a, 4 * b, 1, stride) if stride > 1 or a != 4 * b else nn.Identity()
    def forward(self, x): return torch.relu(self.body(x) + self.short(x))
layers, channels = [conv(3, width, 3, 2), nn.ReLU(), conv(width, width, 3, 2), nn.ReLU()], width
for level in range(4):
    for number in range(depth):
        layers.append(Residual(channels, width << level, 2 if level and not number else 1))
        channels = 4 * (width << level)
class Mean(nn.Module):
    def forward(self, x): return x.mean((2, 3))
model = nn.Sequential(*layers, Mean(), nn.Linear(channels, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
scaler = torch.amp.GradScaler(device, enabled=big)
mean, scale = (torch.full((1, 3, 1, 1), value, device=device) for value in (127.0, 0.017))
batches = iter(DataLoader(Images(), batch_size=batch, num_workers=4 if big else 0, pin_memory=big))
def step():
    x, y = (part.to(device, non_blocking=True) for part in next(batches))
    with torch.autocast(device, enabled=big):
        loss = nn.functional.cross_entropy(model((x.float() - mean) * scale), y)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()
    return loss.detach()
serve(step, model)
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
sys.path.insert(0, sys.argv[2])
import framework_hooks
framework_hooks.install(torch, sys.argv[3])
print(json.dumps({"seconds": best() - before}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", type=int, default=100, help="of blocks, one with and one without the observer")
    parser.add_argument("--block-s", type=float, default=0.15, help="length of a block")
    parser.add_argument("--processes", type=int, default=0, help="compare so many with as many without the observer")
    parser.add_argument("--limit-s", type=float, default=300.0, help="for all: no block begins after that")
    parser.add_argument("--script", default="language,images")
    parser.add_argument("--alone", action="store_true", help="only the time of an observed step on the host")
    args = parser.parse_args()
    begin = time.monotonic()
    if not args.alone:
        with tempfile.TemporaryDirectory() as folder:
            measure(args, Path(folder), begin)
    if args.alone or time.monotonic() < begin + args.limit_s:
        measure_alone(args.device)


def measure(args: argparse.Namespace, folder: Path, begin: float) -> None:
    """All processes start at once, which takes longer than their blocks, and measure in turns."""
    names = args.script.split(",")
    scripts = {name: start(name, args, folder=folder / name) for name in names}
    try:
        for training in itertools.chain(*scripts.values()):
            training.ask()
        ready = time.monotonic()
        print(f"{sum(map(len, scripts.values()))} processes started in {ready - begin:.0f} s", flush=True)
        for number, (name, trainings) in enumerate(scripts.items(), start=1):
            until = ready + (begin + args.limit_s - ready) * number / len(scripts)
            (compare if args.processes else toggle)(name, trainings, args, until=until)
    finally:
        for training in itertools.chain(*scripts.values()):
            training.stop()
    if len(list(folder.glob("*/seen*/rank*.observed.jsonl"))) < len(names):
        notes = [path.read_text() for path in folder.glob("*/seen*/observer.jsonl")]
        sys.exit(f"not all was observed: {notes}")


def start(name: str, args: argparse.Namespace, *, folder: Path) -> list[Training]:
    folder.mkdir()
    if not args.processes:
        return [Training(folder / "seen", name, args.device, how="inside")]
    return [
        Training(folder / f"{how}{number}", name, args.device, how=how)
        for number in range(args.processes)
        for how in ("seen", "plain")
    ]


def toggle(name: str, trainings: list[Training], args: argparse.Namespace, *, until: float) -> None:
    """Blocks with and without the observer in one process."""
    (training,) = trainings
    steps = max(1, round(args.block_s / (training.train(4, "on") / 4)))
    num_before = training.count_observed()
    costs, nothing, plain = [], [], []
    while len(costs) < args.pairs and (time.monotonic() < until or not costs):
        # Each way once at each place, and two neighbours without the observer.
        first = [training.train(steps, way) for way in ("on", "off", "off", "on")]
        costs += [first[0] / first[1] - 1, first[3] / first[2] - 1]
        nothing.append(first[1] / first[2] - 1 if len(nothing) % 2 else first[2] / first[1] - 1)
        plain += first[1:3]
        if len(costs) % 20 == 0:
            print(f"  {name}, {len(costs)} pairs: {_describe(costs)}", flush=True)
    num_observed, num_on = training.count_observed() - num_before, len(costs) * steps
    if not 0.95 * num_on - 8 <= num_observed <= num_on + 8:  # the last steps are written later
        sys.exit(f"{num_observed} steps were observed, not {num_on}: the observer was not taken out and put in")
    step_ms = statistics.median(plain) / steps * 1000
    print(
        f"{name} on {args.device}, inside one process: cost {_describe(costs)}, {len(costs)} pairs of blocks of "
        f"{steps} steps of {step_ms:.2f} ms; blocks without the observer differ by {_describe(nothing)}",
        flush=True,
    )


def compare(name: str, trainings: list[Training], args: argparse.Namespace, *, until: float) -> None:
    """The same steps in processes with and without the observer."""
    for training in trainings:
        step_s = training.train(4) / 4
    steps = max(1, round(args.block_s / step_s))
    costs: list[float] = []
    while len(costs) < args.pairs and (time.monotonic() < until or not costs):
        turn = len(costs) % len(trainings)
        found = {training: training.train(steps) for training in [*trainings[turn:], *trainings[:turn]]}
        sums = [sum(s for training, s in found.items() if training.how == how) for how in ("seen", "plain")]
        costs.append(sums[0] / sums[1] - 1)
    same = "bit-identical" if len({training.ask("digest") for training in trainings}) == 1 else "different"
    print(
        f"{name} on {args.device}, {len(trainings)} processes: losses {same} after {len(costs)} blocks of {steps} "
        f"steps; between processes the cost is {_describe(costs)}",
        flush=True,
    )


def _describe(ratios: list[float]) -> str:
    low, high = _interval(sorted(ratios))
    return f"{statistics.median(ratios):+.2%} (95% {low:+.2%} to {high:+.2%})"


class Training:
    """A process that trains a block of steps when it is told to."""

    def __init__(self, folder: Path, name: str, device: str, *, how: str) -> None:
        """`how`: `plain`, `seen` by the observer, or `inside`, where the observer is put in and taken out."""
        self.how = how
        self._folder = folder
        folder.mkdir()
        (folder / "script.py").write_text(_SETUP + _SCRIPTS[name])
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RANK"))}
        if how == "seen":
            environment |= {observe.VARIABLE: str(folder), "PYTHONPATH": observe.with_hook(None)}
        inside = [str(observe.HOOK_FOLDER.parent), str(folder)] if how == "inside" else []
        argv = [sys.executable, "-W", "ignore", str(folder / "script.py"), device, *inside]
        self._process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def train(self, steps: int, way: str = "") -> float:
        """Seconds of the block."""
        return float(self.ask(f"{steps} {way}"))

    def ask(self, line: str = "") -> str:
        """The answer to a line; without one, what it says when it is ready."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if line:
            self._process.stdin.write(f"{line}\n")
        answer = self._process.stdout.readline().strip()
        return answer or sys.exit(f"the script ended with {self._process.wait()}")

    def count_observed(self) -> int:
        return sum(path.read_text().count('"step"') for path in self._folder.glob("rank*.observed.jsonl")) // 2

    def stop(self) -> None:
        """At once: the end of a process would disturb the blocks of others."""
        self._process.kill()
        self._process.wait()


def measure_alone(device: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(_SETUP + _ALONE)
        argv = [sys.executable, str(script), device, str(observe.HOOK_FOLDER.parent), folder]
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
