"""`trainmark export`: the results in the formats of other systems."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.cli.output import IndexingNote, next_command, open_store, talk, write_whole
from trainmark.cli.parser import add_store_option, path_word
from trainmark.errors import InputError
from trainmark.report.exporting import exports
from trainmark.runfolder.files import OUTPUT_FILE
from trainmark.units import format_count

if TYPE_CHECKING:
    from trainmark.report.exporting import Exported


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run ids or their beginnings (default: all)")
    parser.add_argument("--format", choices=exports().names(), required=True, help="see `trainmark list exports`")
    parser.add_argument(
        "--output",
        "-o",
        type=path_word,
        metavar="PATH",
        help="a file, - for stdout, or a folder (an existing one, or a name that ends in /)",
    )
    add_store_option(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.controller.results import read_asked, read_rows

    wanted = exports().load(args.format)
    rows = read_rows(open_store(Path(args.store)), args.runs, tell=IndexingNote())
    if wanted.export_with_sweeps is None:
        exported = wanted.export(rows)
    else:
        exported = wanted.export_with_sweeps(rows, read_asked(Path(args.store), rows, is_selection=bool(args.runs)))
    if args.output in (None, "-"):
        sys.stdout.write(_stream(exported, args.format))
        _say_left_out(exported)
        return 0
    target = Path(args.output)
    is_folder = exported.stream is None or args.output.endswith("/") or target.is_dir()
    files: dict[Path, str | Path] = {}
    if is_folder:
        files.update({target / name: text for name, text in exported.files.items()})
        files.update({target / name: log for name, log in _find_logs(exported, Path(args.store)).items()})
    else:
        files[target] = _stream(exported, args.format)
    write_whole(files, what="export", make_folders=is_folder)
    written = [row for row in rows if row.id not in exported.left_out]
    failed = sum(row.outcome != "ok" for row in written)
    note = f" ({failed} failed or unfinished)" if failed else ""
    what = f"{format_count(len(written), 'runs')}{note}"
    talk(f"{what} written to {args.output} ({format_count(len(files), 'files')})")
    _say_left_out(exported)
    next_command("trainmark show", store=args.store)
    return 0


def _say_left_out(exported: Exported) -> None:
    for reason, num in Counter(exported.left_out.values()).items():
        talk(f"{format_count(num, 'runs')} left out: {reason}")


def _stream(exported: Exported, name: str) -> str:
    if exported.stream is None:
        raise InputError(f"{name} writes several files", hint="pass a folder: --output DIR")
    return exported.stream


def _find_logs(exported: Exported, root: Path) -> dict[str, Path]:
    paths = {name: root / run_id / OUTPUT_FILE for name, run_id in exported.logs.items()}
    return {name: path for name, path in paths.items() if path.is_file()}
