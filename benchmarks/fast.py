"""`fast` beside `reference` for every workload: speed, ratio, memory, time to the first step, part of the ceilings.

For each workload: a start of `fast` with an empty compile cache and one of `reference`, both measured in turns, then a
start of `fast` with the warm cache. Each workload's line is appended to --output; a workload that has one is not
measured again, so that an interrupted benchmark resumes. What is done is printed with its time.

    python benchmarks/fast.py --device cuda                                  # all five
    python benchmarks/fast.py --device cuda --only tsm,psenet --output f.jsonl
    python benchmarks/fast.py --only resnet50 --size small --batch-size 2 --seconds 1 --rounds 2
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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
    parser.add_argument("--seconds", type=float, default=1.5, help="of each recipe in each round")
    parser.add_argument("--without", type=lambda text: text.split(","), default=[], help="optimisations to leave out")
    parser.add_argument("--cache", type=Path, help="compile cache to use and keep (default: an empty temporary folder)")
    parser.add_argument("--profile", type=Path, help="folder for a table of each workload's kernels")
    parser.add_argument("--output", type=Path, default=Path("fast.jsonl"))
    args = parser.parse_args()
    is_cuda = args.device == "cuda"
    args.size = args.size or ("full" if is_cuda else "small")
    args.precision = args.precision or ("bf16" if is_cuda else "fp32")
    args.reference_precision = args.reference_precision or ("amp" if is_cuda else "fp32")
    return args


def measure(card: Card, ceilings: dict[str, float], args: argparse.Namespace) -> dict[str, Any]:
    """A cold start, which stays and is measured beside the reference; then a warm start, alone again."""
    say = Phases(card.name)
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(1) as beside:
        work = beside.submit(count_bytes_per_sample, card, args)
        cache = str(args.cache or temporary)
        prepared: dict[str, Prepared] = {}
        try:
            for recipe in ("fast", "reference"):  # one after the other: a start that shares the cores takes longer
                prepared[recipe] = start(card, recipe, cache, args)
                say(f"first step of {recipe} after {prepared[recipe].first['first_step_s']:.1f} s")
            measure_in_turns(list(prepared.values()), rounds=args.rounds, seconds=args.seconds)
            rates = ", ".join(f"{recipe} {summarise(one.rates).value:.4g}" for recipe, one in prepared.items())
            say(f"measured: {rates} {card.unit}/s")
            if args.profile is not None:
                args.profile.mkdir(parents=True, exist_ok=True)
                for recipe, one in prepared.items():
                    one.profile(str(args.profile / f"{card.name}_{recipe}.txt"))
                say("profiled")
        finally:
            for one in prepared.values():
                one.end()
        warm = start_warm(card, prepared["fast"], cache, args)
        if warm:
            say(f"first step of fast after {warm['first_step_s']:.1f} s with a warm compile cache")
        cache_bytes = count_bytes(Path(cache))
        bytes_per_sample = work.result()
    fast = prepared["fast"]
    return {
        "workload": card.name,
        "unit": card.unit,
        "batch_size": fast.variant.cell.batch_size_per_device,
        "size": args.size,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "versions": {name: fast.first["facts"].get(name) for name in ("framework", "cuda", "cudnn", "device_name")},
        "ceilings": ceilings,
        "first_step_cold_s": fast.first["first_step_s"],
        "first_step_warm_s": warm.get("first_step_s"),
        "imported_s": {"cold": fast.first["imported_s"], "warm": warm.get("imported_s")},
        "compile_cache_bytes": cache_bytes,
        "recipes": {
            recipe: describe(card, prepared[recipe], ceilings, bytes_per_sample, args)
            for recipe in ("reference", "fast")
        },
        "ratio": asdict(ratio(fast, prepared["reference"])),
    }


def start_warm(card: Card, cold: Prepared, cache: str, args: argparse.Namespace) -> dict[str, Any]:
    """Of a second `fast`; empty where nothing is compiled, as on a CPU."""
    if "compile" not in cold.first["facts"]["optimisations"]:
        return {}
    warm = start(card, "fast", cache, args)
    warm.end()
    return warm.first


class Phases:
    """Says what is done and when, so that a benchmark that was cut off tells how far it came."""

    def __init__(self, name: str) -> None:
        self._name, self._begin = name, time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"{self._name} at {time.monotonic() - self._begin:.0f} s: {text}", flush=True)


def count_bytes_per_sample(card: Card, args: argparse.Namespace) -> float | None:
    """Half precisions have the same. None where shapes depend on the data, and on a CPU: counting takes long there."""
    if not card.has_static_shapes or args.device == "cpu":
        return None
    batch_size = args.batch_size or card.sizes[args.size].batch_size or 1
    return count_work(card.name, size=args.size, batch_size=batch_size, precision=args.precision).bytes


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


def describe(
    card: Card, one: Prepared, ceilings: dict[str, float], bytes_per_sample: float | None, args: argparse.Namespace
) -> dict[str, Any]:
    rate, flops = summarise(one.rates), card.sizes[args.size].flops_per_sample
    return {
        "precision": one.variant.cell.precision,
        "rate": asdict(rate),
        "rounds": one.rates,
        "peak_memory_bytes": one.peak_memory_bytes,
        "first_step_s": one.first["first_step_s"],
        "flops_per_s": rate.value * flops,
        "mfu": rate.value * flops / ceilings[f"matrix_{args.precision}_flops_per_s"],
        "memory_fraction": bytes_per_sample and rate.value * bytes_per_sample / ceilings["copy_bytes_per_s"],
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
                *([f"first step after {found['first_step_s']:.0f} s"] if recipe == "reference" else []),
            ]
            print(", ".join(cells))
        warm = line["first_step_warm_s"]
        caches = "" if warm is None else f" with an empty compile cache, {warm:.0f} s with a warm one"
        print(f"  fast: first step after {line['first_step_cold_s']:.0f} s{caches}")
        print(f"  fast uses {', '.join(line['recipes']['fast']['optimisations'])}")
        print(f"  fast / reference: {_say(line['ratio'])}", flush=True)


def _say(spread: dict[str, float]) -> str:
    found = Spread(**spread)
    return f"{found.value:.4g} ({found.low:.4g} to {found.high:.4g})"


if __name__ == "__main__":
    main()
