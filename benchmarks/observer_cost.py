"""What does the observer cost, and does it change a result? On CPU or CUDA.

    python benchmarks/observer_cost.py [--device cuda] [--rounds 24] [--block-s 0.8] [--limit-s 300]
        [--script language,images]

Two scripts like nanoGPT (a GPT, batches from memory, AdamW, gradient accumulation) and like timm (a residual network,
a data loader with workers, mixed precision with a loss scaler on CUDA) train with deterministic algorithms. Two
processes with and two without the observer run at the same time and take turns: one trains a block of steps while the
others wait. Each round has a block of each, in an order that changes, so that the blocks are seconds apart and no start
of a process is timed.

Printed as it goes: the cost, which is the median over the rounds of the time of the observed blocks relative to the
others, with a 95% interval of the sign test; the same of the two processes without the observer, which differ in
nothing, so that this is what the comparison can tell; and whether all losses are bit-identical. At the end (`--alone`:
only) the processor time that one observed step takes on the host: a hook call, a batch and a record, before and after
the observer is installed in one process that trains nothing.
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
def serve(step):
    "Trains as many steps as each line of the input says and prints their seconds, or a digest of all losses."
    losses = []
    def block(num_steps):
        begin = clock()
        losses.extend(step() for _ in range(num_steps))
        return clock() - begin
    block(WARM_UP)
    print("ready", flush=True)
    for line in sys.stdin:
        if line != "digest\\n":
            print(block(int(line)), flush=True)
            continue
        values = torch.stack(losses).cpu().double().numpy().tobytes()
        print(hashlib.sha256(values).hexdigest(), flush=True)
"""
_SCRIPTS = {
    "language": """
width, depth, batch, length = (768, 12, 6, 1024) if big else (64, 2, 8, 64)
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
batch, size, width, depth = (128, 160, 64, 3) if big else (16, 32, 8, 1)
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
batches = iter(DataLoader(Images(), batch_size=batch, num_workers=2 if big else 0, pin_memory=big))
def step():
    x, y = (part.to(device, non_blocking=True) for part in next(batches))
    with torch.autocast(device, enabled=big):
        loss = nn.functional.cross_entropy(model((x.float() - mean) * scale), y)
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
sys.path.insert(0, sys.argv[2])
import framework_hooks
framework_hooks.install(torch, sys.argv[3])
print(json.dumps({"seconds": best() - before}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=24, help="each has a block of every process")
    parser.add_argument("--block-s", type=float, default=0.8, help="length of a block")
    parser.add_argument("--processes", type=int, default=2, help="with the observer, and as many without")
    parser.add_argument("--limit-s", type=float, default=300.0, help="for all: no round begins after that")
    parser.add_argument("--script", default="language,images")
    parser.add_argument("--alone", action="store_true", help="only the time of an observed step on the host")
    args = parser.parse_args()
    begin = time.monotonic()
    if not args.alone:
        with tempfile.TemporaryDirectory() as folder:
            names = args.script.split(",")
            # All at once: the start of a process takes longer than its blocks.
            scripts = {name: start(name, args, folder=Path(folder) / name) for name in names}
            for trainings in scripts.values():
                for training in trainings:
                    training.wait_until_ready()
            ready = time.monotonic()
            print(f"{sum(map(len, scripts.values()))} processes started in {ready - begin:.0f} s", flush=True)
            for number, (name, trainings) in enumerate(scripts.items(), start=1):
                left_s = begin + args.limit_s - ready
                compare(name, trainings, args, until=ready + left_s * number / len(scripts))
            for training in itertools.chain(*scripts.values()):
                training.stop()
            missing = [name for name in names if not list(Path(folder).glob(f"{name}/seen*/rank*.observed.jsonl"))]
            if missing:
                notes = [path.read_text() for path in Path(folder).glob("*/seen*/observer.jsonl")]
                sys.exit(f"nothing was observed of {missing}: {notes}")
    if args.alone or time.monotonic() < begin + args.limit_s:
        measure_alone(args.device)


def start(name: str, args: argparse.Namespace, *, folder: Path) -> list[Training]:
    folder.mkdir()
    return [
        Training(folder, name, args.device, is_observed=is_observed, number=number)
        for number in range(args.processes)
        for is_observed in (True, False)
    ]


def compare(name: str, trainings: list[Training], args: argparse.Namespace, *, until: float) -> None:
    for training in trainings:  # each of them, so that all have the same steps
        step_s = training.train(4) / 4
    steps = max(1, round(args.block_s / step_s))
    rounds: list[dict[Training, float]] = []
    while len(rounds) < args.rounds and (time.monotonic() < until or not rounds):
        turn = len(rounds) % len(trainings)
        order = [*trainings[turn:], *trainings[:turn]]
        order = order if len(rounds) // len(trainings) % 2 else order[::-1]
        rounds.append({training: training.train(steps) for training in order})
        if len(rounds) % 4 == 0:
            print(f"  {name}, {len(rounds)} rounds: {_describe(_costs(rounds))}", flush=True)
    same = "bit-identical" if len({training.ask("digest") for training in trainings}) == 1 else "different"
    plain = [seconds for found in rounds for training, seconds in found.items() if not training.is_observed]
    what = f"{len(rounds)} rounds of {len(trainings)} blocks of {steps} steps"
    step_ms = statistics.median(plain) / steps * 1000
    print(
        f"{name} on {args.device}: cost {_describe(_costs(rounds))}, {what} of {step_ms:.2f} ms; losses {same}",
        flush=True,
    )
    if args.processes > 1:
        print(
            f"{name} on {args.device}: two processes without the observer differ by {_describe(_twins(rounds))}",
            flush=True,
        )


def _costs(rounds: list[dict[Training, float]]) -> list[float]:
    found = []
    for blocks in rounds:
        sums = {True: 0.0, False: 0.0}
        for training, seconds in blocks.items():
            sums[training.is_observed] += seconds
        found.append(sums[True] / sums[False] - 1)
    return found


def _twins(rounds: list[dict[Training, float]]) -> list[float]:
    """Of the first two processes without the observer."""
    plain = [sorted((t.number, s) for t, s in blocks.items() if not t.is_observed) for blocks in rounds]
    return [one[1] / two[1] - 1 for one, two, *_ in plain]


def _describe(ratios: list[float]) -> str:
    low, high = _interval(sorted(ratios))
    return f"{statistics.median(ratios):+.2%} (95% {low:+.2%} to {high:+.2%})"


class Training:
    """A process that trains a block of steps when it is told to."""

    def __init__(self, folder: Path, name: str, device: str, *, is_observed: bool, number: int) -> None:
        self.is_observed, self.number = is_observed, number
        own = folder / f"{'seen' if is_observed else 'plain'}{number}"
        own.mkdir()
        (own / "script.py").write_text(_SETUP + _SCRIPTS[name])
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RANK"))}
        if is_observed:
            environment |= {observe.VARIABLE: str(own), "PYTHONPATH": observe.with_hook(None)}
        argv = [sys.executable, "-W", "ignore", str(own / "script.py"), device]
        self._process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def wait_until_ready(self) -> None:
        self._read()

    def train(self, steps: int) -> float:
        """Seconds of the block."""
        return float(self.ask(str(steps)))

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        return self._read()

    def stop(self) -> None:
        """At once: the end of a process would disturb the blocks of others."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return line.strip() or sys.exit(f"the script ended with {self._process.wait()}")


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
