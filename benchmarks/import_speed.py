"""How fast a log is read, in one run: our reader against a plain loop over lines with one regular expression per line.

    python benchmarks/import_speed.py [--gigabytes 1] [--record-every 100]

The log is made as real ones are: a record (PaddleSeg's line) every N lines, between them what training programs print:
progress bars of evaluation, NCCL, data-loader and framework chatter. The plain loop takes the same facts from a record
as ours; the tuned one leaves out the time stamp and knows the exact line. Each runs in a process of its own, on one
core, on the same file in the page cache; they take turns and the best pass of each counts. A dense log (a record in
every second line) is measured beside it: there the records bound all of them, and ours keeps more of each.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

_CHATTER = (
    "{n:>4}/500 [{bar:<32}] - ETA: 0:12 - batch_cost: 0.1021 - reader cost: 0.0003\n",
    "gpu-node-17:4901:5511 [0] NCCL INFO Channel 02/0 : 3[3f000] -> 4[88000] via P2P/IPC/read comm 0x7fb118001060\n",
    "W0511 07:05:30.453613  4153 device_context.cc:362] NOTE: device: 0, Compute Capability: 7.0, Driver: 11.0\n",
    "2021-05-11 07:05:24 [INFO]\tSaving model to output/iter_{n}; keeping the 10 newest check points of this run\n",
    "/opt/conda/lib/python3.8/site-packages/numpy/core/fromnumeric.py:3373: RuntimeWarning: Mean of empty slice.\n",
)
_RECORD = (
    "2021-05-11 07:{m:02d}:{s:02d} [INFO]\t[TRAIN] epoch: {epoch}, iter: {n}/160000, loss: 0.{loss:04d}, lr: 0.009998, "
    "batch_cost: 0.{cost:04d}, reader_cost: 0.00136, ips: {ips:.4f} samples/sec | ETA 07:41:26\n"
)
_LINE = re.compile(
    r"(\d+-\d+-\d+ \d+:\d+:\d+).*epoch: (\d+), iter: (\d+)/\d+, loss: ([\d.]+).*batch_cost: ([\d.]+).*ips: ([\d.]+)"
)
"""Takes what our reader takes: also the time of the line."""
_LINE_WITHOUT_TIME = re.compile(
    r"epoch: (\d+), iter: (\d+)/\d+, loss: ([\d.]+), lr: [\d.]+, "
    r"batch_cost: ([\d.]+), reader_cost: [\d.]+, ips: ([\d.]+)"
)
"""The best that a pattern can do: it knows the exact line and begins with letters, so most lines fail at once."""


def make_log(path: Path, num_bytes: int, record_every: int) -> int:
    """Returns the number of records. A piece of some megabytes is repeated with its iterations going on."""
    records = 0
    with path.open("wb") as file:
        file.write(b"GPUs used: 8\nbatch_size: 8\n")
        while file.tell() < num_bytes:
            lines = []
            for number in range(20_000):
                if number % record_every == 0:
                    records += 1
                    cost = 3000 + records * 7919 % 500
                    lines.append(
                        _RECORD.format(
                            m=records // 60 % 60, s=records % 60, epoch=records // 1000, n=10 * records,
                            loss=records * 31 % 9999, cost=cost, ips=80000 / cost,
                        )
                    )  # fmt: skip
                else:
                    lines.append(_CHATTER[number % len(_CHATTER)].format(n=number % 500, bar="=" * (number % 32)))
            file.write("".join(lines).encode())
    return records


def read_plainly(path: Path) -> tuple[int, float]:
    """The usual script: a text file, each line, one pattern."""
    found = []
    with path.open(errors="replace") as file:
        for line in file:
            match = _LINE.search(line)
            if match:
                moment, epoch, step, loss, seconds, rate = match.groups()
                time_s = datetime.fromisoformat(moment).timestamp()
                found.append((time_s, int(epoch), int(step), float(loss), float(seconds), float(rate)))
    return len(found), sum(row[5] for row in found)


def read_tuned(path: Path) -> tuple[int, float]:
    """The same loop without the time stamp and with a pattern made for this very file."""
    found = []
    with path.open(errors="replace") as file:
        for line in file:
            match = _LINE_WITHOUT_TIME.search(line)
            if match:
                epoch, step, loss, seconds, rate = match.groups()
                found.append((int(epoch), int(step), float(loss), float(seconds), float(rate)))
    return len(found), sum(row[4] for row in found)


def read_ours(path: Path) -> tuple[int, float]:
    """What `trainmark import` does with a file, up to the records in its spool; the digest is part of it."""
    from trainmark.logs.opening import LogFile
    from trainmark.logs.reading import read_log
    from trainmark.logs.record import Facts
    from trainmark.logs.registry import load_dialects
    from trainmark.logs.timing import column

    log = read_log(LogFile(path), load_dialects(), given=Facts())
    assert log is not None
    spool = log.gathered.spool
    rates = sum(float(column(part, "rate").sum()) for part in spool.parts())
    spool.close()
    return spool.num_rows, rates


READERS = {"plain loop": read_plainly, "tuned loop": read_tuned, "trainmark": read_ours}


def run_child(name: str, path: Path) -> None:
    begin, cpu = time.perf_counter(), time.process_time()
    records, rates = READERS[name](path)
    wall_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"records": records, "rates": rates, "wall_s": wall_s, "cpu_s": cpu_s, "peak_bytes": peak}))


def measure(name: str, path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--child", name, str(path)], capture_output=True, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def compare(path: Path, record_every: int, passes: int) -> None:
    size = path.stat().st_size
    best: dict[str, dict[str, float]] = {}
    for _ in range(passes):
        for name in READERS:
            found = measure(name, path)
            if name not in best or found["cpu_s"] < best[name]["cpu_s"]:
                best[name] = found
    plain, ours = best["plain loop"], best["trainmark"]
    assert plain["records"] == ours["records"], "both must find the same records"
    assert abs(plain["rates"] / ours["rates"] - 1) < 1e-9
    print(f"{size / 1e9:.2f} GB, a record every {record_every} lines, {ours['records']:.0f} records")
    for name, found in best.items():
        of_core, by_clock = (size / found[key] / 1e6 for key in ("cpu_s", "wall_s"))
        speed = f"{of_core:7.0f} MB/s of core time, {by_clock:7.0f} MB/s by the clock"
        print(f"  {name:<11}{speed}, peak memory {found['peak_bytes'] / 2**20:5.0f} MiB")
    tuned = best["tuned loop"]
    print(f"  core time of the plain loop over ours: {plain['cpu_s'] / ours['cpu_s']:.1f}; of the tuned loop: ", end="")
    print(f"{tuned['cpu_s'] / ours['cpu_s']:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--record-every", type=int, default=100)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--child", nargs=2, metavar=("READER", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        run_child(args.child[0], Path(args.child[1]))
        return
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parents[1] / "src"))
    with tempfile.TemporaryDirectory(prefix="import-speed-") as folder:
        for record_every, gigabytes in ((args.record_every, args.gigabytes), (2, args.gigabytes / 10)):
            path = Path(folder) / f"every{record_every}.log"
            make_log(path, int(gigabytes * 1e9), record_every)
            compare(path, record_every, args.passes)
            path.unlink()


if __name__ == "__main__":
    main()
