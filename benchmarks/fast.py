"""`fast` beside `reference` for every workload: speed, ratio, memory, time to the first step, part of the ceilings.

For each workload: a start of `fast` with an empty compile cache and one of `reference`, both measured in turns, then a
start of `fast` with the warm cache. Each workload has a row in --output, written before the warm start and completed
behind it; what has a row with the same settings is not measured again, so that an interrupted benchmark resumes. What
is done is printed with its time. Exits with 1 if a workload failed.

    python benchmarks/fast.py --device cuda                                  # all five
    python benchmarks/fast.py --device cuda --only tsm,psenet --output f.jsonl
    python benchmarks/fast.py --only resnet50 --size small --batch-size 2 --seconds 1 --rounds 2
"""

from __future__ import annotations

import argparse
import pstats
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from json_rows import JsonRows, Row
from trainmark.cache_folder import CACHE_VARIABLE, count_bytes
from trainmark.controller.turns import Prepared, Spread, Variant, measure_in_turns, ratio, summarise
from trainmark.errors import RunError
from trainmark.spec.cell import Cell, DataSource
from trainmark.worker.torch.ceilings import copy_bytes_per_s, matrix_flops_per_s
from trainmark.worker.torch.work import count_work
from trainmark.workloads.card import Card
from trainmark.workloads.registry import load_card, load_cards

_HALF = ("amp", "bf16", "fp16")


def main() -> int:
    args = read_arguments()
    kept = JsonRows(args.output, key_of)
    ceilings: dict[str, float] = {}
    failed = []
    for name in args.only or load_cards():
        if key_of(settings_of(load_card(name), args)) in kept.rows:
            print(f"{name}: already in {args.output}")
            continue
        ceilings = ceilings or measure_ceilings(args.device, {args.precision, args.reference_precision})
        try:
            row = measure(load_card(name), ceilings, kept, args)
        except RunError as error:
            print(f"{name}: {error}", flush=True)
            failed.append(name)
            continue
        print_table([row])
    print_table(list(kept.rows.values()))
    return int(bool(failed))


def settings_of(card: Card, args: argparse.Namespace) -> Row:
    return {
        "workload": card.name,
        "size": args.size,
        "batch_size": batch_size_of(card, args),
        "precision": args.precision,
        "reference_precision": args.reference_precision,
        "device": args.device,
        "without": sorted(args.without),
    }


def key_of(row: Row) -> tuple[Any, ...]:
    """Of rows with the same settings; older rows have not all of them, and are measured again."""
    names = ("workload", "size", "batch_size", "precision", "reference_precision", "device")
    return (*(row.get(name) for name in names), *row.get("without", ()))


def batch_size_of(card: Card, args: argparse.Namespace) -> int:
    return int(args.batch_size or card.sizes[args.size].batch_size or 1)


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
    parser.add_argument(
        "--cache", type=Path, help="folder that keeps a compile cache for each workload (default: empty ones)"
    )
    parser.add_argument("--profile", type=Path, help="folder for a table of each workload's kernels")
    parser.add_argument("--profile-start", type=Path, help="folder for a profile of one more, warm start")
    parser.add_argument("--output", type=Path, default=Path("fast.jsonl"))
    args = parser.parse_args()
    is_cuda = args.device == "cuda"
    args.size = args.size or ("full" if is_cuda else "small")
    args.precision = args.precision or ("bf16" if is_cuda else "fp32")
    args.reference_precision = args.reference_precision or ("amp" if is_cuda else "fp32")
    return args


def measure(card: Card, ceilings: dict[str, float], kept: JsonRows, args: argparse.Namespace) -> Row:
    """A cold start, which stays and is measured beside the reference; then a warm start, alone again."""
    say = Phases(card.name)
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(1) as beside:
        work = beside.submit(count_bytes_per_sample, card, args)
        cache = str(Path(args.cache or temporary) / card.name)  # its own, so that each has a cold start
        is_cold = count_bytes(Path(cache)) == 0
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
        row = describe_row(card, prepared, ceilings, {} if work.exception() else work.result(), args)
        row["first_step_cold_s"] = prepared["fast"].first["first_step_s"] if is_cold else None
        row["compile_cache_bytes"] = count_bytes(Path(cache))
        kept.put(row)
        warm = start_warm(card, prepared["fast"], cache, args)
        if warm:
            say(f"first step of fast after {warm['first_step_s']:.1f} s with a warm compile cache")
            row["first_step_warm_s"] = warm["first_step_s"]
            row["imported_s"]["warm"] = warm["imported_s"]
            kept.put(row)
        if args.profile_start is not None:
            start_profiled(card, cache, args)
            say(f"start profiled in {args.profile_start}")
    return row


def describe_row(
    card: Card,
    prepared: dict[str, Prepared],
    ceilings: dict[str, float],
    bytes_per_sample: dict[str, float],
    args: argparse.Namespace,
) -> Row:
    """What is known before the warm start."""
    fast = prepared["fast"]
    return {
        **settings_of(card, args),
        "unit": card.unit,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "versions": {name: fast.first["facts"].get(name) for name in ("framework", "cuda", "cudnn", "device_name")},
        "ceilings": ceilings,
        "first_step_warm_s": None,
        "imported_s": {"cold": fast.first["imported_s"], "warm": None},
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


def start_profiled(card: Card, cache: str, args: argparse.Namespace) -> None:
    """One more start of `fast` under cProfile, which makes it slower: for its proportions, not its time."""
    args.profile_start.mkdir(parents=True, exist_ok=True)
    path = args.profile_start / f"{card.name}_start.prof"
    start(card, "fast", cache, args, program=("-m", "cProfile", "-o", str(path), *Variant.program)).end()
    with path.with_suffix(".txt").open("w") as text:
        pstats.Stats(str(path), stream=text).sort_stats("cumulative").print_stats(120)


class Phases:
    """Says what is done and when, so that a benchmark that was cut off tells how far it came."""

    def __init__(self, name: str) -> None:
        self._name, self._begin = name, time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"{self._name} at {time.monotonic() - self._begin:.0f} s: {text}", flush=True)


def count_bytes_per_sample(card: Card, args: argparse.Namespace) -> dict[str, float]:
    """By precision. Empty on a CPU: counting takes long there."""
    if args.device == "cpu":
        return {}
    counted: dict[bool, float] = {}  # precisions of the same width have the same
    precisions = {args.precision, args.reference_precision}
    for is_half in {precision in _HALF for precision in precisions}:
        precision = "bf16" if is_half else "fp32"
        work = count_work(card.name, size=args.size, batch_size=batch_size_of(card, args), precision=precision)
        counted[is_half] = work.bytes
    return {precision: counted[precision in _HALF] for precision in precisions}


def start(
    card: Card, recipe: str, cache: str, args: argparse.Namespace, program: tuple[str, ...] = Variant.program
) -> Prepared:
    precision = args.precision if recipe == "fast" else args.reference_precision
    cell = Cell(
        workload=card.name, framework="torch", recipe=recipe, precision=precision, size=args.size, device=args.device,
        nodes=1, devices_per_node=1, batch_size_per_device=batch_size_of(card, args), data=DataSource(),
        epochs=None, lr=None, until_target=(), seed=0, repeat=1,
    )  # fmt: skip
    variant = Variant(
        name=f"{card.name} {recipe}",
        cell=cell,
        without=tuple(args.without),
        environment={CACHE_VARIABLE: cache},
        program=program,
    )
    return Prepared(variant).wait_for_first_step()


def describe(
    card: Card, one: Prepared, ceilings: dict[str, float], bytes_per_sample: dict[str, float], args: argparse.Namespace
) -> dict[str, Any]:
    """Parts of the ceilings of its own precision."""
    rate, flops = summarise(one.rates), card.sizes[args.size].flops_per_sample
    precision = one.variant.cell.precision
    num_bytes = bytes_per_sample.get(precision)
    return {
        "precision": precision,
        "rate": asdict(rate),
        "rounds": one.rates,
        "peak_memory_bytes": one.peak_memory_bytes,
        "first_step_s": one.first["first_step_s"],
        "flops_per_s": rate.value * flops,
        "mfu": rate.value * flops / ceilings[f"matrix_{precision}_flops_per_s"],
        "memory_fraction": None if num_bytes is None else rate.value * num_bytes / ceilings["copy_bytes_per_s"],
        "optimisations": one.first["facts"].get("optimisations"),
    }


def measure_ceilings(device_type: str, precisions: Collection[str]) -> dict[str, float]:
    device = torch.device(device_type)
    found = {f"matrix_{each}_flops_per_s": matrix_flops_per_s(each, device) for each in sorted(precisions)}
    found["copy_bytes_per_s"] = copy_bytes_per_s(device)
    if device_type == "cuda":
        torch.cuda.empty_cache()
    return found


def print_table(lines: Sequence[Row]) -> None:
    for line in lines:
        print(f"{line['workload']}, batch {line['batch_size']}, {line['unit']}/s, {line['date']}, {line['versions']}")
        for recipe, found in line["recipes"].items():
            cells = [
                f"  {recipe:<10}{found['precision']:<5}{Spread(**found['rate']).to_text()}",
                f"{found['flops_per_s'] / 1e12:.3g} TFLOP/s ({_part(found['mfu'])} of a matrix product)",
                *([f"{_part(found['memory_fraction'])} of a copy"] if found["memory_fraction"] is not None else []),
                f"{(found['peak_memory_bytes'] or 0) / 1e9:.1f} GB",
                *([f"first step after {found['first_step_s']:.0f} s"] if recipe == "reference" else []),
            ]
            print(", ".join(cells))
        print(f"  fast: first step after {_say_starts(line)}")
        print(f"  fast uses {', '.join(line['recipes']['fast']['optimisations'])}")
        print(f"  fast / reference: {Spread(**line['ratio']).to_text()}", flush=True)


def _say_starts(line: Row) -> str:
    first, cold, warm = (
        line["recipes"]["fast"]["first_step_s"],
        line["first_step_cold_s"],
        line["first_step_warm_s"],
    )
    if cold is None:
        return f"{first if warm is None else warm:.0f} s with a warm compile cache"
    return (
        f"{cold:.0f} s" if warm is None else f"{cold:.0f} s with an empty compile cache, {warm:.0f} s with a warm one"
    )


def _part(fraction: float) -> str:
    """A part of a measured ceiling cannot be above 1: then the number is not one."""
    return f"{fraction:.0%}" if fraction <= 1 else "above the peak"


if __name__ == "__main__":
    sys.exit(main())
