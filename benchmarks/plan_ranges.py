"""Do sweeps take as long as `plan` says? Ten real sweeps, one after the other, in a store that begins empty.

    python benchmarks/plan_ranges.py [--sweeps 10]

Each is planned, then run; printed: the range that was said, the time it took, and whether it was inside. The first has
no history to learn from; later ones have what the earlier ones left. The start of Python itself is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_SWEEPS = (
    "resnet50 --batch-size 2 --max-seconds 10",
    "resnet50 --batch-size 2 --max-seconds 10 --repeat 2",
    "resnet50 --batch-size 2,8 --max-seconds 20",
    "tsm --batch-size 1 --max-seconds 10",
    "hrnet_w18 --batch-size 1 --max-seconds 10",
    "resnet50 --batch-size 2 --devices 1,2 --max-seconds 10",
    "psenet --batch-size 1 --max-seconds 10",
    "resnet50 --batch-size 4 --precision bf16 --max-seconds 10",
    "resnet50 --batch-size 2 --devices 2 --max-seconds 20",
    "hrnet_w18 --batch-size 1,2 --max-seconds 10",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sweeps", type=int, default=len(_SWEEPS))
    args = parser.parse_args()
    num_inside = 0
    print("| sweep | runs | said | took | inside |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as store:
        for sweep in _SWEEPS[: args.sweeps]:
            words = [*sweep.split(), "--size", "small", "--device", "cpu", "--store", store, "--json"]
            planned = _trainmark("plan", *words)
            low_s, high_s = planned["total_range_s"]
            begin = time.monotonic()
            _trainmark("run", *words)
            took_s = time.monotonic() - begin - _start_s()
            is_inside = low_s <= took_s <= high_s
            num_inside += is_inside
            said = f"{low_s:.0f} to {high_s:.0f} s ({high_s / low_s:.1f} times)"
            print(f"| `{sweep}` | {len(planned['cells'])} | {said} | {took_s:.0f} s | {'yes' if is_inside else 'no'} |",
                  flush=True)  # fmt: skip
    print(f"\n{num_inside} of {min(args.sweeps, len(_SWEEPS))} inside")


def _trainmark(*words: str) -> dict[str, object]:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src")}
    argv = [sys.executable, "-m", "trainmark.cli.main", *words]
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def _start_s() -> float:
    """Of the controller itself."""
    begin = time.monotonic()
    _trainmark("list", "--json")
    return time.monotonic() - begin


if __name__ == "__main__":
    main()
