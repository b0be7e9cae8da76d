"""`trainmark import`: turns logs of other training programs into results like our own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.cli.output import IndexingNote, open_store, print_results, say_next, stdout_console, talk
from trainmark.cli.parser import add_json_option, add_store_option, integer
from trainmark.errors import InputError
from trainmark.units import format_count, plain

if TYPE_CHECKING:
    from trainmark.controller.importing import ImportOptions, ImportResult
    from trainmark.store.rows import RunRow

_MAX_NAMED = 20
_FRAMEWORKS = ("torch", "paddle", "tensorflow", "mxnet", "oneflow")
_PRECISIONS = ("fp32", "tf32", "amp", "bf16", "fp16")
_OTHER_NAMES = {"pure_fp16": "fp16"}
"""Names of a precision that others use; accepted, and not in the help."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="log files, or folders of them")
    facts = parser.add_argument_group("values that the logs omit or state wrongly (applied to all of them)")
    facts.add_argument("--model", metavar="NAME", help="name of the model")
    facts.add_argument("--workload", metavar="NAME", help="one of `trainmark list workloads`")
    facts.add_argument("--framework", choices=_FRAMEWORKS)
    facts.add_argument("--precision", type=_precision, choices=_PRECISIONS)
    facts.add_argument("--devices", type=integer(), metavar="N", help="number of devices on all nodes together")
    facts.add_argument("--nodes", type=integer(), metavar="N", help="number of machines")
    facts.add_argument(
        "--batch-size", type=integer(), metavar="N", help="samples per device and step (of text: sequences)"
    )
    parser.add_argument(
        "--pattern", type=Path, metavar="FILE", help="TOML file that describes a log format of your own"
    )
    parser.add_argument(
        "--protocol", metavar="NAME", help="also aggregate by a published method: see `trainmark list protocols`"
    )
    parser.add_argument("--workers", type=integer(), metavar="N", help="processes (default: all cores)")
    add_store_option(parser)
    add_json_option(parser)


def _precision(text: str) -> str:
    return _OTHER_NAMES.get(text, text)


def run(args: argparse.Namespace) -> int:
    from trainmark.cli.progress import file_progress
    from trainmark.controller.importing import import_logs

    _check(args)
    store = open_store(Path(args.store))
    result = import_logs(_read_options(args), store, show_progress=file_progress, tell=IndexingNote())
    if args.json:
        skipped = [{"path": plain(item.path), "reason": plain(item.reason)} for item in result.skipped]
        print_results(result.rows, protocol=args.protocol, skipped=skipped)
    else:
        _print(result.rows, args.protocol)
    _say_totals(result)
    say_next(result.rows, store, given=args.store)
    return 1 if result.has_failures else 0


def _check(args: argparse.Namespace) -> None:
    if args.devices and args.nodes and args.devices % args.nodes:
        what = f"--devices: must be a multiple of --nodes ({args.nodes}), got {args.devices}"
        raise InputError(what, hint="--devices is the number on all nodes together")
    from trainmark.workloads.registry import load_cards

    if args.workload is not None and args.workload not in load_cards():
        raise InputError(f"--workload: unknown workload {args.workload!r}", hint="see `trainmark list workloads`")
    if args.pattern is not None:
        from trainmark.logs.pattern import load_pattern

        load_pattern(args.pattern)
    else:
        from trainmark.logs.registry import dialects

        for plugin in dialects().broken():
            talk(f"warning: {plugin}; {plugin.hint}")
    if args.protocol is not None:
        from trainmark.analyse.protocols import parse_protocol

        parse_protocol(args.protocol)


def _read_options(args: argparse.Namespace) -> ImportOptions:
    from trainmark.controller.importing import ImportOptions
    from trainmark.logs.record import Facts

    given = Facts(
        model=args.model,
        workload=args.workload,
        framework=args.framework,
        precision=args.precision,
        devices=args.devices,
        nodes=args.nodes,
        batch_size_per_device=args.batch_size,
    )
    return ImportOptions(paths=args.paths, given=given, pattern=args.pattern, workers=args.workers)


def _print(rows: Sequence[RunRow], protocol: str | None) -> None:
    from trainmark.analyse.table import build_lines
    from trainmark.report.console import print_lines, print_protocol

    console = stdout_console()
    print_lines(build_lines(rows), console)
    if protocol is not None:
        print_protocol(rows, protocol, console)


def _say_totals(result: ImportResult) -> None:
    skipped = result.skipped
    counts = f"{format_count(result.num_new, 'logs')} imported, {result.num_known} already imported"
    talk(f"{counts}, {len(skipped)} skipped")
    for item in skipped[:_MAX_NAMED]:
        talk(f"  skipped: {item.path}: {item.reason}")
    if len(skipped) > _MAX_NAMED:
        talk(f"  and {len(skipped) - _MAX_NAMED} more (--json lists all)")
