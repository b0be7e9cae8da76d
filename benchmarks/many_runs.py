"""How long `show` and `report` take with many runs in one store, as commands: the start of Python is part of it.

    python benchmarks/many_runs.py [--runs 1000] [--passes 5]

The store is made as a year of work leaves it (tests/many_runs.py): sweeps with repeats of 100 to 400 steps, trainings,
commands, imported logs, failures. The first `show` finds no index and reads every folder; it is shown apart. So is a
`show` with the index and without the kept answer to the same question, as after a new run. Core time
stands beside the clock, since another process on the machine moves only the clock. Byte code is kept, as an installed
Python keeps it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_COMMANDS = (
    ("show",),
    ("show", "--json"),
    ("report",),
    ("report", "--format", "console"),
    ("report", "--output", "report.md"),
    ("report", "--output", "report.html"),
    ("plan", "quick"),
)


def measure(words: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """Seconds by the clock and of core time, both of the whole process."""
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src"), "OMP_NUM_THREADS": "1"}
    environment |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "XDG_CACHE_HOME": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, begin = os.times(), time.perf_counter()
    command = [sys.executable, "-m", "trainmark.cli.main", *words, "--store", "runs"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    wall_s, after = time.perf_counter() - begin, os.times()
    core_s = after.children_user + after.children_system - before.children_user - before.children_system
    return wall_s, core_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=5)
    args = parser.parse_args()
    sys.path[:0] = [str(_ROOT / "src"), str(_ROOT / "tests")]
    from many_runs import make_store
    from trainmark.store.kept_answer import answer_file

    with tempfile.TemporaryDirectory(prefix="many-runs-") as name:
        folder = Path(name)
        make_store(folder / "runs", args.runs)
        measure(("plan", "quick"), folder)  # writes the byte code of most of it
        print(f"{args.runs} runs; seconds by the clock (and of core time), the best of {args.passes} passes")
        wall_s, core_s = measure(("show",), folder)
        print(f"  {'show, nothing indexed yet':<26} {wall_s:6.2f} ({core_s:.2f})")
        found = []
        for _ in range(args.passes):
            answer_file({"XDG_CACHE_HOME": str(folder)}).unlink(missing_ok=True)
            found.append(measure(("show",), folder))
        print(f"  {'show, not asked before':<26} {min(found)[0]:6.2f} ({min(found)[1]:.2f})")
        for words in _COMMANDS:
            measure(words, folder)
            wall_s, core_s = min(measure(words, folder) for _ in range(args.passes))
            print(f"  {' '.join(words):<26} {wall_s:6.2f} ({core_s:.2f})")


if __name__ == "__main__":
    main()
