"""Does the feed keep up? `fast` on generated files against `fast` on synthetic data, in turns, and the loader alone.

For each workload a data set is generated in --data (or found there), then three rates are measured: training on one
batch in the device's memory, training from the files, and the loader without any training, which is its ceiling.
Each workload has a row in --output, and one that has it is not measured again. Exits with 1 if a workload failed.

    python benchmarks/feed.py --device cuda --data /tmp/data                     # all five
    python benchmarks/feed.py --device cuda --data /tmp/data --only tsm --images 2000
    python benchmarks/feed.py --only tsm --data /tmp/data --images 36 --size small --batch-size 2 --seconds 1 --rounds 2
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from json_rows import JsonRows, Row
from trainmark.controller.turns import Prepared, Spread, Variant, measure_in_turns, ratio, summarise
from trainmark.errors import TrainmarkError
from trainmark.spec.cell import Cell, DataSource
from trainmark.workloads.registry import load_card


@dataclass(frozen=True, kw_only=True)
class Files:
    format: str
    num_images: int
    """Enough for several seconds at the rate of a fast GPU; then the same files are read again, from memory."""
    size: str = ""
    """For Cityscapes, the real one: by default `data make` draws streets with a quarter of the pixels."""


FILES = {
    "tsm": Files(format="kinetics", num_images=1500),
    "hrnet_w18": Files(format="cityscapes", num_images=300, size="2048x1024"),
    "psenet": Files(format="icdar2015", num_images=1000),
    "mask_rcnn": Files(format="coco", num_images=1000),
    "resnet50": Files(format="imagenet", num_images=9600),
}


def main() -> int:
    args = read_arguments()
    kept = JsonRows(args.output, key_of)
    failed = []
    for name in args.only or FILES:
        if key_of(settings_of(name, args)) in kept.rows:
            print(f"{name}: already in {args.output}")
            continue
        try:
            kept.put(measure(name, make_files(name, args), args))
        except (TrainmarkError, subprocess.CalledProcessError) as error:
            print(f"{name}: {error}", flush=True)
            failed.append(name)
            continue
        print_line(kept.rows[key_of(settings_of(name, args))])
    return int(bool(failed))


def settings_of(name: str, args: argparse.Namespace) -> Row:
    return {
        "workload": name,
        "size": args.size,
        "batch_size": args.batch_size or load_card(name).sizes[args.size].batch_size or 1,
        "precision": args.precision,
        "device": args.device,
    }


def key_of(row: Row) -> tuple[Any, ...]:
    """Of rows with the same settings; older rows have not all of them, and are measured again."""
    return tuple(row.get(name) for name in ("workload", "size", "batch_size", "precision", "device"))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--data", type=Path, required=True, help="folder for the generated data sets")
    parser.add_argument("--only", type=lambda text: text.split(","), help="workloads, separated by commas")
    parser.add_argument("--images", type=int, help="of each data set")
    parser.add_argument("--size", help="full, medium or small (default: full on a GPU, small on a CPU)")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--precision", help="default: bf16 on a GPU, fp32 on a CPU")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each in a round; the first quarter is left out")
    parser.add_argument("--output", type=Path, default=Path("feed.jsonl"))
    args = parser.parse_args()
    args.size = args.size or ("full" if args.device == "cuda" else "small")
    args.precision = args.precision or ("bf16" if args.device == "cuda" else "fp32")
    return args


def make_files(name: str, args: argparse.Namespace) -> Path:
    files = FILES[name]
    folder: Path = args.data / "-".join(filter(None, (files.format, files.size)))
    if not folder.exists():
        args.data.mkdir(parents=True, exist_ok=True)
        begin, num_images = time.monotonic(), args.images or files.num_images
        argv = [sys.executable, "-m", "trainmark.cli.main", "data", "make", files.format, str(folder)]
        argv += ["--images", str(num_images), *(["--image-size", files.size] if files.size else [])]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        print(f"{name}: {num_images} samples made in {time.monotonic() - begin:.0f} s", flush=True)
    return folder


def measure(name: str, folder: Path, args: argparse.Namespace) -> Row:
    """One after the other: the second start finds what the first has compiled."""
    with contextlib.ExitStack() as ending:
        synthetic, files = (start(name, data, args, ending) for data in ("synthetic", str(folder)))
        measure_in_turns([synthetic, files], rounds=args.rounds, seconds=args.seconds)
        loaded = files.load(args.seconds)
    facts = files.first["facts"]
    return {
        **settings_of(name, args),
        "unit": load_card(name).unit,
        "folder": folder.name,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "versions": {key: facts.get(key) for key in ("framework", "cuda", "device_name")},
        "num_cores": os.cpu_count(),
        "synthetic": asdict(summarise(synthetic.rates)),
        "files": asdict(summarise(files.rates)),
        "fraction": asdict(ratio(files, synthetic)),
        "loader_per_s": loaded,
    }


def start(name: str, data: str, args: argparse.Namespace, ending: contextlib.ExitStack) -> Prepared:
    cell = Cell(
        workload=name, framework="torch", recipe="fast", precision=args.precision, size=args.size, device=args.device,
        nodes=1, devices_per_node=1, batch_size_per_device=settings_of(name, args)["batch_size"],
        data=DataSource.parse(data), epochs=None, lr=None, until_target=(), seed=0, repeat=1,
    )  # fmt: skip
    one = Prepared(Variant(name=f"{name} from {data}", cell=cell))
    ending.callback(one.end)
    return one.wait_for_first_step()


def print_line(line: Row) -> None:
    said = {key: Spread(**line[key]).to_text() for key in ("synthetic", "files", "fraction")}
    print(
        f"{line['workload']}, batch {line['batch_size']}, {line['unit']}/s, {line['num_cores']} cores, {line['date']}"
    )
    print(f"  synthetic {said['synthetic']}, from files {said['files']}: fraction {said['fraction']}")
    print(f"  the loader alone: {line['loader_per_s']:.4g}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
