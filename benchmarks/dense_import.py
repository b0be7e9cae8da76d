"""How fast a dense log is imported, with a record on every line: from the file to the analysed run, on one core.

    python benchmarks/dense_import.py [--megabytes 300] [--passes 2]

Measured is all that `trainmark import` does with one file: reading, SHA-256, the run folder, reading it back, and the
analysis. Each import runs in a process of its own, with the log in the page cache; the best pass counts. A second log
of a third of the size shows whether memory depends on the number of records. `PYTHONPATH` chooses the version.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_LINES_AT_ONCE = 10_000


def paddle(number: int, dice: random.Random) -> str:
    seconds = 10 * number // 33
    clock = f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    cost = dice.uniform(0.0295, 0.0305)
    return (
        f"2021-05-{1 + seconds // 86400 % 28:02d} {clock} [INFO]\t[TRAIN] epoch: {number // 1000}, "
        f"iter: {10 * number}/999999, loss: {dice.uniform(0.1, 0.9):.4f}, lr: 0.009998, batch_cost: {cost:.4f}, "
        f"reader_cost: 0.00136, "
        f"ips: {8 / cost:.4f} samples/sec | ETA 07:41:26\n"
    )


def timm(number: int, dice: random.Random) -> str:
    epoch, step = divmod(number, 1251)
    seconds = dice.uniform(0.240, 0.250)
    return (
        f"Train: {epoch} [{step:>4d}/1251 ({100 * step / 1250:>3.0f}%)]  Loss: {dice.uniform(6.1, 6.9):.3f} (6.950)  "
        f"Time: {seconds:.3f}s, {256 / seconds:>7.2f}/s  (0.245s, {256 / 0.245:>7.2f}/s)  LR: 1.000e-05  "
        f"Data: 0.012 (0.067)\n"
    )


def nanogpt(number: int, dice: random.Random) -> str:
    return f"iter {number}: loss {dice.uniform(2, 3):.4f}, time {dice.uniform(40, 42):.2f}ms, mfu 17.93%\n"


PROGRAMS: dict[str, tuple[str, Callable[[int, random.Random], str]]] = {
    "paddle": ("GPUs used: 8\nbatch_size: 8\n", paddle),
    "timm": ("Training with a single process on 1 device (cuda:0).\n", timm),
    "nanogpt": ("tokens per iteration will be: 16,384\n", nanogpt),
}


def make_log(path: Path, program: str, num_bytes: int) -> int:
    """Returns the number of records."""
    head, line = PROGRAMS[program]
    dice, records = random.Random(1), 0
    with path.open("w", encoding="ascii") as file:
        file.write(head)
        while file.tell() < num_bytes:
            file.write("".join(line(records + place, dice) for place in range(1, _LINES_AT_ONCE + 1)))
            records += _LINES_AT_ONCE
    return records


def run_child(path: Path) -> None:
    from trainmark.analyse.analysis import analyse_steps
    from trainmark.logs.importing import Task, import_file
    from trainmark.logs.record import Facts
    from trainmark.store.folder import read_run

    with tempfile.TemporaryDirectory(prefix="dense-import-") as store:
        begin = time.process_time()
        done = import_file(Task(path=path, store=Path(store), given=Facts(), pattern=None, targets={}))
        assert done.run_id is not None, done.reason
        row = read_run(Path(store) / done.run_id)
        assert row is not None
        analysis = analyse_steps(row)
        cpu_s = time.process_time() - begin
    assert analysis.estimate is not None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = {"records": row.num_records, "value": analysis.estimate.value, "cpu_s": cpu_s, "peak_bytes": peak}
    print(json.dumps(found))


def measure(path: Path, passes: int) -> dict[str, float]:
    found = []
    for _ in range(passes):
        done = subprocess.run(
            [sys.executable, __file__, "--child", str(path)], capture_output=True, text=True, check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        found.append(json.loads(done.stdout))
    best: dict[str, float] = min(found, key=lambda result: result["cpu_s"])
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--program", choices=PROGRAMS, action="append")
    parser.add_argument("--child", metavar="FILE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        run_child(Path(args.child))
        return
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parents[1] / "src"))
    with tempfile.TemporaryDirectory(prefix="dense-import-") as folder:
        for program in args.program or PROGRAMS:
            for megabytes in (args.megabytes // 3, args.megabytes):
                path = Path(folder) / f"{program}.log"
                records = make_log(path, program, megabytes * 1_000_000)
                found = measure(path, args.passes)
                assert found["records"] == records, "no record is skipped"
                print(
                    f"{program:<8} {path.stat().st_size / 1e6:4.0f} MB, {records:>8} records: "
                    f"{path.stat().st_size / found['cpu_s'] / 1e6:4.0f} MB/s of core time, "
                    f"peak memory {found['peak_bytes'] / 2**20:4.0f} MiB",
                    flush=True,
                )
                path.unlink()


if __name__ == "__main__":
    main()
