"""`trainmark data fetch`: a URL, or several parts of one file, to a checked file and an unpacked folder."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from pathlib import Path

from trainmark.cli.output import add_json_flag, next_command, print_json, stdout_console, talk
from trainmark.errors import InputError
from trainmark.units import format_bytes, format_count, format_seconds, plain

_STAGES = ("downloading", "joining", "checksum", "unpacking")
_MAX_CONNECTIONS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("urls", nargs="+", metavar="URL", help="http or https; several are parts, joined in this order")
    parser.add_argument("--output", required=True, metavar="FILE_OR_DIR", help="where the file goes; never overwritten")
    checksum = parser.add_mutually_exclusive_group()
    checksum.add_argument("--sha256", metavar="HEX", help="what the joined file must have")
    checksum.add_argument("--md5", metavar="HEX", help="the same, where a publisher states no better one")
    parser.add_argument("--unpack", type=Path, metavar="DIR", help="unpack the tar or zip into this new folder")
    parser.add_argument("--connections", type=int, default=4, metavar="N", help="at a time (default: 4)")
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    from rich.text import Text

    from trainmark.cli.byte_progress import ByteProgress
    from trainmark.datasets.fetch.download import Effort
    from trainmark.datasets.fetch.fetch import FetchRequest, fetch
    from trainmark.datasets.fetch.request import parse_checksum

    if not 1 <= args.connections <= _MAX_CONNECTIONS:
        raise InputError(f"{args.connections} connections are not opened", hint=f"give 1 to {_MAX_CONNECTIONS}")
    checksum = parse_checksum("sha256", args.sha256) if args.sha256 else None
    checksum = parse_checksum("md5", args.md5) if args.md5 else checksum
    effort = Effort(num_connections=args.connections)
    request = FetchRequest(urls=args.urls, output=args.output, checksum=checksum, unpack=args.unpack, effort=effort)
    with ByteProgress() as progress:
        try:
            report = fetch(
                request,
                on_stage=lambda name, done, total: progress.show(name, done, total, stage=_STAGES.index(name)),
                say=talk,
            )
        except KeyboardInterrupt:
            talk("what came so far is kept; run the same command again to go on")
            raise
    if args.json:
        document = asdict(report)
        unpacked = None if report.unpacked is None else str(report.unpacked)
        print_json(**{**document, "output": str(report.output), "unpacked": unpacked})
        return 0
    console = stdout_console()
    size = f"{format_bytes(report.num_bytes)}, {format_seconds(report.elapsed_s)}"
    parts = "" if report.num_parts == 1 else f" from {report.num_parts} parts"
    checked = f"{report.checked} as given" if report.checked else "no checksum was given to compare"
    console.print(Text(plain(f"{report.output}{parts} ({size}); {checked}; sha256 {report.sha256}")))
    if report.num_files is not None:
        console.print(Text(plain(f"{report.unpacked}: {format_count(report.num_files, 'files')} unpacked")))
    if report.unpacked is None:
        next_command(f"the same with --sha256 {report.sha256} --unpack DIR, which downloads nothing again")
    else:
        next_command(f"trainmark data check FORMAT {shlex.quote(str(report.unpacked))} --write-manifest")
    return 0
