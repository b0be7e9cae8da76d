"""The frameworks beside each other on one device: speed with intervals, and ratios within rounds.

For each workload one process of every variant is started, all at once, and then they are measured in turns, so that a
machine that drifts touches all alike. A variant without a first step after --limit-s is left out. Each workload's line
is appended to --output; a workload that has one is not measured again, so that an interrupted benchmark resumes. What
was compiled is kept, so a variant that was left out starts sooner in the next call (--again measures a workload again).

    python benchmarks/frameworks.py --device cuda --only resnet50           # one workload takes about two minutes
    python benchmarks/frameworks.py --only resnet50 --variants torch:reference,jax:fast --size small --batch-size 2

Why does XLA compile one for so long? Give it other flags, and compare the seconds to the first step:

    python benchmarks/frameworks.py --device cuda --only psenet --variants jax:fast --again \\
        --xla-flags=--xla_gpu_experimental_enable_fusion_autotuner=false
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainmark.controller.turns import Prepared, Spread, Variant, measure_in_turns, ratio, summarise
from trainmark.errors import RunError
from trainmark.spec.cell import Cell, DataSource
from trainmark.workloads.registry import load_card

_WORKLOADS = ["resnet50", "tsm", "psenet", "hrnet_w18"]
"""Those of all frameworks."""
_VARIANTS = ["torch:reference", "torch:fast", "jax:fast"]
_JAX_MEMORY_SHARE = "0.45"
"""JAX takes three quarters of a GPU when it starts, whatever it needs; the others must fit beside it."""


def main() -> None:
    args = read_arguments()
    done = set() if args.again else {line["workload"] for line in read_lines(args.output)}
    for workload in args.only:
        if workload in done:
            print(f"{workload}: already in {args.output}")
            continue
        line = measure(workload, args)
        if line["variants"]:
            with args.output.open("a") as file:
                file.write(json.dumps(line) + "\n")
    print_table(read_lines(args.output))


def read_arguments() -> argparse.Namespace:
    def words(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", type=words, default=_WORKLOADS, help="workloads, separated by commas")
    parser.add_argument("--variants", type=words, default=_VARIANTS, help="FRAMEWORK:RECIPE, separated by commas")
    parser.add_argument("--size", help="full, medium or small (default: full on a GPU, small on a CPU)")
    parser.add_argument("--batch-size", type=int, help="default: the seeds' own")
    parser.add_argument("--precision", help="of all (default: bf16 on a GPU, fp32 on a CPU)")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each variant in each round")
    parser.add_argument("--limit-s", type=float, default=150.0, help="until the first step")
    parser.add_argument("--again", action="store_true", help="also those that are in --output")
    parser.add_argument("--xla-flags", default="", help="for JAX")
    parser.add_argument("--output", type=Path, default=Path("frameworks.jsonl"))
    args = parser.parse_args()
    args.size = args.size or ("full" if args.device == "cuda" else "small")
    args.precision = args.precision or ("bf16" if args.device == "cuda" else "fp32")
    return args


def measure(workload: str, args: argparse.Namespace) -> dict[str, Any]:
    with contextlib.ExitStack() as ending:
        prepared: dict[str, Prepared] = {}
        end = time.monotonic() + args.limit_s
        for name, one in {name: start(workload, name, args) for name in args.variants}.items():
            ending.callback(one.end)
            try:
                prepared[name] = one.wait_for_first_step(limit_s=max(1.0, end - time.monotonic()))
            except RunError as error:
                print(error, flush=True)
                continue
            print(f"{one.variant.name}: first step after {one.first['first_step_s']:.0f} s", flush=True)
        measure_in_turns(list(prepared.values()), rounds=args.rounds, seconds=args.seconds)
    pairs = itertools.combinations(reversed(prepared), 2)
    return {
        "workload": workload,
        "unit": load_card(workload).unit,
        "batch_size": batch_size_of(workload, args),
        "size": args.size,
        "precision": args.precision,
        "xla_flags": args.xla_flags,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "variants": {name: describe(one) for name, one in prepared.items()},
        "ratios": {f"{one} / {other}": asdict(ratio(prepared[one], prepared[other])) for one, other in pairs},
    }


def batch_size_of(workload: str, args: argparse.Namespace) -> int:
    return args.batch_size or load_card(workload).sizes[args.size].batch_size or 1


def start(workload: str, name: str, args: argparse.Namespace) -> Prepared:
    framework, _, recipe = name.partition(":")
    cell = Cell(
        workload=workload, framework=framework, recipe=recipe, precision=args.precision, size=args.size,
        device=args.device, nodes=1, devices_per_node=1, batch_size_per_device=batch_size_of(workload, args),
        data=DataSource(), epochs=None, lr=None, until_target=(), seed=0, repeat=1,
    )  # fmt: skip
    own = {"XLA_PYTHON_CLIENT_MEM_FRACTION": _JAX_MEMORY_SHARE, "XLA_FLAGS": args.xla_flags}
    return Prepared(Variant(name=f"{workload} {name}", cell=cell, environment=own if framework == "jax" else {}))


def describe(one: Prepared) -> dict[str, Any]:
    return {
        "rate": asdict(summarise(one.rates)),
        "rounds": one.rates,
        "first_step_s": one.first["first_step_s"],
        "first_loss": one.first["first_loss"],
        "peak_memory_bytes": one.peak_memory_bytes,
        "framework": one.first["facts"].get("framework"),
        "device_name": one.first["facts"].get("device_name"),
    }


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def print_table(lines: Sequence[dict[str, Any]]) -> None:
    print("| workload | framework | recipe | precision | batch | per second | 95% interval | first step |")
    print("|---|---|---|---|---|---|---|---|")
    for line in lines:
        for name, found in line["variants"].items():
            rate = Spread(**found["rate"])
            cells = [
                line["workload"], *name.split(":"), line["precision"], str(line["batch_size"]),
                f"{rate.value:,.4g} {line['unit']}", say_interval(rate, ",.4g"),
                f"{found['first_step_s']:.0f} s",
            ]  # fmt: skip
            print(f"| {' | '.join(cells)} |")
    print("\n| workload | ratio | value | 95% interval |\n|---|---|---|---|")
    for line in lines:
        for name, found in line["ratios"].items():
            spread = Spread(**found)
            print(f"| {line['workload']} | {name} | {spread.value:.3f} | {say_interval(spread, '.3f')} |")
    print(flush=True)


def say_interval(spread: Spread, digits: str) -> str:
    return "–" if spread.interval is None else " … ".join(f"{end:{digits}}" for end in spread.interval)


if __name__ == "__main__":
    main()
