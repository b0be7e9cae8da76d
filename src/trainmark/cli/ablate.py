"""`trainmark ablate`: what each optimisation of the recipe fast is worth on this machine."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

from trainmark.cli.output import next_command, print_json, stdout_console, talk
from trainmark.cli.parser import add_json_option, integer, number
from trainmark.plan.machine import read_machine

if TYPE_CHECKING:
    from trainmark.controller.ablation import Ablated, AblationOptions
    from trainmark.report.ablation import AblationLine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workload", metavar="WORKLOAD", help="see trainmark list workloads")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda if there is a GPU")
    parser.add_argument("--precision", metavar="NAME", help="default: bf16 on a GPU, fp32 on a CPU")
    parser.add_argument("--size", metavar="NAME", help="default: full on a GPU, small on a CPU")
    parser.add_argument("--batch-size", type=integer(), metavar="N", help="default: that of the workload's size")
    parser.add_argument("--only", metavar="A,B", help="optimisations to leave out, one at a time (default: all)")
    parser.add_argument(
        "--rounds", type=integer(1, 100), default=5, metavar="N", help="each measures every variant once (default: 5)"
    )
    parser.add_argument("--seconds", type=number, default=2.0, help="of each variant in each round (default: 2)")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.controller.ablation import ablate, read_options
    from trainmark.report.ablation import print_ablation

    options = read_options(
        workload=args.workload,
        device=args.device,
        precision=args.precision,
        size=args.size,
        batch_size=args.batch_size,
        only=args.only.split(",") if args.only else (),
        rounds=args.rounds,
        seconds=args.seconds,
        machine=read_machine(),
    )
    found, cause = ablate(options, say=talk)
    if args.json:
        print_json(ablation=asdict(found))
    else:
        print_ablation([_line(row) for row in found.rows], found.unit, stdout_console())
    if cause is not None:
        more = ",".join(found.not_measured)
        talk(
            f"not measured: {more}; add --only {more} for these"
            if more
            else "stopped early: fewer rounds than --rounds"
        )
        raise cause
    if not args.json:
        next_command(shlex.join(_run_command(found.options, device=args.device)))
    return 0


def _run_command(options: AblationOptions, *, device: str | None) -> list[str]:
    """Measures both recipes as they were here. `run` has other defaults: fp32 and full size on every device.

    `device` is the one that was asked for, if any: `run` chooses by itself as `ablate` does.
    """
    from trainmark.workloads.registry import load_card

    usual_batch_size = load_card(options.workload).sizes[options.size].batch_size
    argv = ["trainmark", "run", options.workload, "--recipe", "reference,fast"]
    argv += [] if options.precision == "fp32" else ["--precision", options.precision]
    argv += [] if options.size == "full" else ["--size", options.size]
    argv += [] if device is None else ["--device", device]
    argv += [] if options.batch_size == usual_batch_size else ["--batch-size", str(options.batch_size)]
    return argv


def _line(row: Ablated) -> AblationLine:
    from trainmark.report.ablation import AblationLine

    needs = "needs" if len(row.also_without) == 1 else "need"
    also = f"; also without {', '.join(row.also_without)}, which {needs} it" if row.also_without else ""
    worth = row.worth
    return AblationLine(
        name=row.optimisation.name,
        rate=None if row.rate is None else row.rate.value,
        worth=None if worth is None else worth.value,
        interval=None if worth is None else worth.interval,
        first_step_s=row.first_step_s,
        note=row.failure or row.optimisation.meaning + also,
    )
