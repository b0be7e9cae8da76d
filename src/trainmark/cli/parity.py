"""`trainmark parity`: do the frameworks train the same thing?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.cli.output import next_command, print_json, stdout_console, talk
from trainmark.cli.parser import add_json_option, add_store_option, integer
from trainmark.errors import InputError

if TYPE_CHECKING:
    from trainmark.controller.parity_options import ParityOptions
    from trainmark.runfolder.parity import ParityRecord

_STAGES = "mathematics, rounding, trajectory and work"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workload", metavar="WORKLOAD", help="see `trainmark list workloads`")
    parser.add_argument(
        "--frameworks",
        metavar="NAMES",
        help="separated by commas, such as torch,paddle,jax (default: all installed ones that the workload supports)",
    )
    parser.add_argument("--recipe", default="reference", metavar="NAME", help="recipe to check (default: reference)")
    parser.add_argument("--stages", metavar="NAMES", help=f"some of {_STAGES} (default: all)")
    parser.add_argument(
        "--precision",
        metavar="NAMES",
        help="of the stage rounding (default: fp32 and bf16, as far as a framework besides PyTorch supports them)",
    )
    parser.add_argument("--size", default="small", metavar="NAME", help="input size (default: small)")
    parser.add_argument(
        "--steps",
        type=integer(),
        default=200,
        metavar="N",
        help="of the stage trajectory (default: 200, the least that compare accepts)",
    )
    parser.add_argument(
        "--seed",
        type=integer(),
        default=1,
        metavar="N",
        help="of the weights, the batches and the order of samples (default: 1)",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="of the stages rounding, trajectory and work (default: cpu); mathematics is always on the CPU",
    )
    parser.add_argument(
        "--jobs",
        type=integer(),
        default=1,
        metavar="N",
        help="processes at a time; they share the cores (default: 1)",
    )
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the answer")
    add_store_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.controller.parity import run_parity
    from trainmark.controller.parity_lock import hold
    from trainmark.controller.parity_options import check_options
    from trainmark.controller.parity_probes import ProcessProber
    from trainmark.controller.parity_proofs import keep_proof
    from trainmark.controller.results import refuse_file
    from trainmark.report.parity import describe_parity, print_parity
    from trainmark.runfolder.parity import PARITY_FOLDER

    store = Path(args.store)
    refuse_file(store)
    options = _read_options(args)
    check_options(options)
    unfinished = store / PARITY_FOLDER / f"unfinished-{options.name}"
    with hold(unfinished):
        prober = ProcessProber(unfinished, tell=talk, jobs=args.jobs)
        record, path = keep_proof(store, run_parity(options, prober))
        prober.forget()
    if args.json:
        print_json(**describe_parity(record), stored=str(path))
    else:
        print_parity(record, stdout_console(), lang=args.lang)
    _say_next(record, options, store=args.store)
    return 0 if record.holds else 1


def _read_options(args: argparse.Namespace) -> ParityOptions:
    from trainmark.controller.parity_options import ParityOptions, usable_frameworks, usable_precisions
    from trainmark.runfolder.parity import STAGES

    stages = _split(args.stages) or STAGES
    unknown = [name for name in stages if name not in STAGES]
    if unknown:
        raise InputError(f"--stages: unknown stage {unknown[0]!r}", hint=f"use some of {', '.join(STAGES)}")
    names = _split(args.frameworks) or usable_frameworks(args.workload, args.recipe, args.device)
    usual = usable_precisions(names, args.recipe, args.device) if args.precision is None else ()
    return ParityOptions(
        workload=args.workload,
        frameworks=names,
        recipe=args.recipe,
        stages=stages,
        precisions=_split(args.precision) or usual,
        size=args.size,
        device=args.device,
        steps=args.steps,
        seed=args.seed,
    )


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in (text or "").split(",") if word.strip()))


def _say_next(record: ParityRecord, options: ParityOptions, *, store: str) -> None:
    """The stage that failed by itself, as the rest need not run again; else what has not run yet; else a comparison."""
    from dataclasses import replace

    from trainmark.analyse.parity_verdict import needs_not_met
    from trainmark.controller.parity_proofs import read_proofs
    from trainmark.messages.parity import parity_short
    from trainmark.runfolder.parity import LEAST_STEPS

    stages = [stage for pair in record.pairs for stage in pair.stages]
    failed = next((stage for stage in stages if not stage.holds), None)
    if failed is not None:
        next_command(f"{replace(options, stages=(failed.stage,)).command} --json", store=store)
        return
    if any(stage.is_short for stage in stages):
        talk(f"note: {parity_short(steps=options.steps, least=LEAST_STEPS)}")
    missing = needs_not_met(record, read_proofs([Path(store)]))
    if missing:
        lacking = set().union(*missing.values())
        left = replace(
            options,
            frameworks=tuple(name for name in options.frameworks if name in lacking),
            stages=tuple(dict.fromkeys(need.stage for need in missing)),
            precisions=tuple(dict.fromkeys(need.precision for need in missing if need.precision)),
            steps=max(options.steps, LEAST_STEPS),
        )
        next_command(left.command, store=store)
        return
    one, other = record.pairs[0].one, record.pairs[0].other
    is_recipe = one.framework == other.framework
    names = (one.recipe, other.recipe) if is_recipe else (one.framework, other.framework)
    axis = "recipe" if is_recipe else "framework"
    next_command(f"trainmark compare {axis}={names[0]} {axis}={names[1]}", store=store)
