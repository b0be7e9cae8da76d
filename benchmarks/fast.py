"""`fast` beside `reference` for every workload: speed, ratio, memory, time to the first step, part of the ceilings.

For each workload: a cold start of `fast` with an empty compile cache, then both recipes are started, `fast` with a warm
cache, and measured in turns. Each workload's line is appended to --output; a workload that has one is not measured
again, so that an interrupted benchmark resumes. One workload takes 2 to 6 minutes on a GPU.

    python benchmarks/fast.py --device cuda                                  # all five
    python benchmarks/fast.py --device cuda --only tsm,psenet --output f.jsonl
    python benchmarks/fast.py --only resnet50 --size small --batch-size 2 --seconds 1 --rounds 2 --no-cold
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from trainmark.compile_cache import CACHE_VARIABLE, count_bytes
from trainmark.controller.turns import Prepared, Spread, Variant, measure_in_turns, ratio, summarise
from trainmark.errors import RunError
from trainmark.spec.cell import Cell, DataSource
from trainmark.worker.torch.ceilings import copy_bytes_per_s, matrix_flops_per_s
from trainmark.worker.torch.work import count_work
from trainmark.workloads.card import Card
from trainmark.workloads.registry import load_card, load_cards


def main() -> None:
    args = read_arguments()
    done = {line["workload"] for line in read_lines(args.output)}
    ceilings: dict[str, float] = {}
    for name in args.only or load_cards():
        if name in done:
            print(f"{name}: already in {args.output}")
            continue
        ceilings = ceilings or measure_ceilings(args.device, args.precision)
        try:
            line = measure(load_card(name), ceilings, args)
        except RunError as error:
            print(f"{name}: {error}", flush=True)
            continue
        with args.output.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print_table([line])
    print_table(read_lines(args.output))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", type=lambda text: text.split(","), help="workloads, separated by commas")
    parser.add_argument("--size", help="full, medium or small (default: full on a GPU, small on a CPU)")
    parser.add_argument("--batch-size", type=int, help="default: the seeds' own on a GPU")
    parser.add_argument("--precision", help="of fast (default: bf16 on a GPU, fp32 on a CPU)")
    parser.add_argument("--reference-precision", help="default: amp on a GPU, fp32 on a CPU")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each recipe in each round")
    parser.add_argument("--without", type=lambda text: text.split(","), default=[], help="optimisations to leave out")
    parser.add_argument("--no-cold", action="store_true", help="do not measure a start with an empty compile cache")
    parser.add_argument("--cache", type=Path, help="compile cache to use and keep (default: a temporary folder)")
    parser.add_argument("--profile", type=Path, help="folder for a table of each workload's kernels")
    parser.add_argument("--output", type=Path, default=Path("fast.jsonl"))
    args = parser.parse_args()
    is_cuda = args.device == "cuda"
    args.size = args.size or ("full" if is_cuda else "small")
    args.precision = args.precision or ("bf16" if is_cuda else "fp32")
    args.reference_precision = args.reference_precision or ("amp" if is_cuda else "fp32")
    return args


def measure(card: Card, ceilings: dict[str, float], args: argparse.Namespace) -> dict[str, Any]:
    recipes = ["reference", *(["fast"] if "fast" in card.recipes else [])]
    with tempfile.TemporaryDirectory() as temporary:
        cache = str(args.cache or temporary)
        cold = None if args.no_cold or len(recipes) == 1 else start(card, "fast", cache, args)
        if cold is not None:
            cold.end()
        prepared: dict[str, Prepared] = {}
        try:
            for recipe in recipes:  # one after the other: a start that shares the cores takes longer
                prepared[recipe] = start(card, recipe, cache, args)
            measure_in_turns(list(prepared.values()), rounds=args.rounds, seconds=args.seconds)
            if args.profile is not None:
                args.profile.mkdir(parents=True, exist_ok=True)
                for recipe, one in prepared.items():
                    one.profile(str(args.profile / f"{card.name}_{recipe}.txt"))
        finally:
            for one in prepared.values():
                one.end()
        cache_bytes = count_bytes(Path(cache))
    facts = prepared[recipes[-1]].first["facts"]
    return {
        "workload": card.name,
        "unit": card.unit,
        "batch_size": prepared["reference"].variant.cell.batch_size_per_device,
        "size": args.size,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "versions": {name: facts.get(name) for name in ("framework", "cuda", "cudnn", "device_name")},
        "ceilings": ceilings,
        "first_step_cold_s": None if cold is None else cold.first["first_step_s"],
        "compile_cache_bytes": cache_bytes,
        "recipes": {recipe: describe(card, one, ceilings, args) for recipe, one in prepared.items()},
        "ratio": asdict(ratio(prepared["fast"], prepared["reference"])) if "fast" in prepared else None,
    }


def start(card: Card, recipe: str, cache: str, args: argparse.Namespace) -> Prepared:
    size = card.sizes[args.size]
    precision = args.precision if recipe == "fast" else args.reference_precision
    cell = Cell(
        workload=card.name, framework="torch", recipe=recipe, precision=precision, size=args.size, device=args.device,
        nodes=1, devices_per_node=1, batch_size_per_device=args.batch_size or size.batch_size or 1, data=DataSource(),
        epochs=None, lr=None, until_target=(), seed=0, repeat=1,
    )  # fmt: skip
    variant = Variant(
        name=f"{card.name} {recipe}", cell=cell, without=tuple(args.without), environment={CACHE_VARIABLE: cache}
    )
    return Prepared(variant).wait_for_first_step()


def describe(card: Card, one: Prepared, ceilings: dict[str, float], args: argparse.Namespace) -> dict[str, Any]:
    cell, rate = one.variant.cell, summarise(one.rates)
    size = card.sizes[args.size]
    num_bytes = None
    if card.has_static_shapes and args.device == "cuda":  # on a CPU counting takes as long as measuring
        counted = count_work(card.name, size=args.size, batch_size=cell.batch_size_per_device, precision=cell.precision)
        num_bytes = counted.bytes
    return {
        "precision": cell.precision,
        "rate": asdict(rate),
        "rounds": one.rates,
        "peak_memory_bytes": one.peak_memory_bytes,
        "first_step_s": one.first["first_step_s"],
        "imported_s": one.first["imported_s"],
        "flops_per_s": rate.value * size.flops_per_sample,
        "mfu": rate.value * size.flops_per_sample / ceilings[f"matrix_{args.precision}_flops_per_s"],
        "memory_fraction": None if num_bytes is None else rate.value * num_bytes / ceilings["copy_bytes_per_s"],
        "optimisations": one.first["facts"].get("optimisations"),
    }


def measure_ceilings(device_type: str, precision: str) -> dict[str, float]:
    device = torch.device(device_type)
    found = {
        f"matrix_{precision}_flops_per_s": matrix_flops_per_s(precision, device),
        "copy_bytes_per_s": copy_bytes_per_s(device),
    }
    if device_type == "cuda":
        torch.cuda.empty_cache()
    return found


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def print_table(lines: Sequence[dict[str, Any]]) -> None:
    for line in lines:
        print(f"{line['workload']}, batch {line['batch_size']}, {line['unit']}/s, {line['date']}, {line['versions']}")
        for recipe, found in line["recipes"].items():
            cells = [
                f"  {recipe:<10}{found['precision']:<5}{_say(found['rate'])}",
                f"{found['flops_per_s'] / 1e12:.3g} TFLOP/s ({found['mfu']:.0%} of a matrix product)",
                *([f"{found['memory_fraction']:.0%} of a copy"] if found["memory_fraction"] is not None else []),
                f"{(found['peak_memory_bytes'] or 0) / 1e9:.1f} GB",
                f"first step after {found['first_step_s']:.0f} s",
            ]
            print(", ".join(cells))
        if line["first_step_cold_s"] is not None:
            print(f"  fast with an empty compile cache: first step after {line['first_step_cold_s']:.0f} s")
        if line["ratio"] is not None:
            print(f"  fast / reference: {_say(line['ratio'])}", flush=True)


def _say(spread: dict[str, float]) -> str:
    found = Spread(**spread)
    return f"{found.value:.4g} ({found.low:.4g} to {found.high:.4g})"


if __name__ == "__main__":
    main()
