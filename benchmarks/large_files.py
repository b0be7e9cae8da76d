"""How much memory and time `show` needs for a run folder with very large files, as a command.

    python benchmarks/large_files.py [--megabytes 1000] [--line-megabytes 600]

Three stores: a rank file of steps, a rank file of warnings and evaluations, and one with a single line of zeros. The
memory is the largest resident size of the process; the target is 300 MB for any file.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_STEP = {"kind": "step", "step": 1, "seconds": 0.1, "time_s": 1.0, "samples": 4.0, "loss": 1.5, "unix_s": 1.79e9}
_OTHERS = [
    {"kind": "warning", "code": "x", "message": "m" * 100},
    {"kind": "eval", "step": 1, "epoch": 1.0, "time_s": 1.0, "metric": "top1", "value": 0.5},
    {"kind": "telemetry", "unix_s": 1.79e9},
]


def fill(path: Path, part: bytes, megabytes: float) -> None:
    with path.open("ab") as file:
        for _ in range(max(1, int(megabytes * 1e6 / len(part)))):
            file.write(part)


def show(store: Path) -> tuple[float, float]:
    """Seconds, and megabytes of the largest child so far."""
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "trainmark.cli.main", "show", "--store", str(store)]
    begin = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1000.0)
    parser.add_argument("--line-megabytes", type=float, default=600.0)
    args = parser.parse_args()
    sys.path[:0] = [str(_ROOT / "src"), str(_ROOT / "tests")]
    from making import make_run
    from trainmark.runfolder.records import encode_record

    steps, others = encode_record(_STEP) * 1000, b"".join(map(encode_record, _OTHERS)) * 300
    cases = {
        "a line of zeros": (bytes(1 << 20), args.line_megabytes),
        "warnings, evaluations, telemetry": (others, args.megabytes),
        "steps": (steps, args.megabytes),
    }
    with tempfile.TemporaryDirectory(prefix="large-files-") as name:
        for place, (what, (part, megabytes)) in enumerate(cases.items()):
            store = Path(name) / str(place)
            path = make_run(store, "run") / "rank0.jsonl"
            fill(path, part, megabytes)
            seconds, peak = show(store)
            print(f"{what:<34} {path.stat().st_size / 1e6:6.0f} MB: {seconds:6.1f} s, at most {peak:4.0f} MB so far")
            path.unlink()


if __name__ == "__main__":
    main()
