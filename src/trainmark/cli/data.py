"""`trainmark data`: make a data set, check one, or download one."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.cli.output import next_command, print_json, stdout_console, talk
from trainmark.cli.parser import add_json_option, integer, number
from trainmark.units import format_bytes, format_count, format_seconds, plain

if TYPE_CHECKING:
    from trainmark.datasets.report import CheckReport

_MAX_FAULTS_SHOWN = 50
_MAX_CONNECTIONS = 64
_STAGES = ("downloading", "joining", "checksum", "unpacking")
_MANIFEST_WORDS = {
    "absent": "no manifest.sha256 to compare with; --write-manifest writes one",
    "unchecked": "--quick: checksums were not compared with manifest.sha256",
    "verified": "all files match manifest.sha256",
    "differs": "the files do not match manifest.sha256, which was not changed; "
    "if the files are right, remove it and run again with --write-manifest",
    "written": "manifest.sha256 written for the current files",
}
_NOTES_WORDS = "notes: a run converts such files and skips such entries"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    make = _add_action(actions, "make", "generate a data set in the layout of the real one")
    make.add_argument("--images", type=integer(), metavar="N", help="number of images (or clips) in total")
    make.add_argument("--classes", type=integer(), metavar="N", help="number of classes")
    make.add_argument("--val-fraction", type=number, metavar="X", help="fraction of the images for validation")
    make.add_argument("--seed", type=integer(0), metavar="N", help="the same seed gives the same bytes")
    make.add_argument("--source", type=Path, metavar="DIR", help="original files, for a format that converts")
    make.add_argument("--as-videos", action="store_true", default=None, help="video files instead of folders of frames")
    make.add_argument("--image-size", type=_size, metavar="WxH", help="of cityscapes (real: 2048x1024, default: half)")
    check = _add_action(actions, "check", "check the layout and every file of a data set")
    depth = check.add_mutually_exclusive_group()
    depth.add_argument("--quick", action="store_true", help="check only the ends of files; no decoding, no checksums")
    depth.add_argument("--write-manifest", action="store_true", help="write manifest.sha256 if there is none")
    fetch = _add_action(actions, "fetch", "download an archive, check it and unpack it")
    fetch.add_argument("urls", nargs="+", metavar="URL", help="http or https; several are parts, joined in this order")
    fetch.add_argument("--output", required=True, metavar="FILE_OR_DIR", help="where the file goes; never overwritten")
    checksum = fetch.add_mutually_exclusive_group()
    checksum.add_argument("--sha256", metavar="HEX", help="expected checksum of the joined file")
    checksum.add_argument("--md5", metavar="HEX", help="the same, if the publisher states only this one")
    fetch.add_argument("--unpack", type=Path, metavar="DIR", help="unpack the tar or zip into this new folder")
    fetch.add_argument(
        "--connections",
        type=integer(1, _MAX_CONNECTIONS),
        default=4,
        metavar="N",
        help="number of parallel connections (default: 4)",
    )
    add_json_option(fetch)
    for action in (make, check):
        action.add_argument("format", metavar="FORMAT", help="see `trainmark list formats`")
        action.add_argument("folder", type=Path, metavar="DIR")
        action.add_argument("--workers", type=integer(), metavar="N", help="processes or threads (default: all cores)")
        add_json_option(action)


def _size(text: str) -> tuple[int, int]:
    """Height and width."""
    found = re.fullmatch(r"([1-9]\d{0,5})x([1-9]\d{0,5})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"must be WIDTHxHEIGHT, as 2048x1024, got {text!r}")
    return int(found[2]), int(found[1])


def _add_action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    return actions.add_parser(name, help=summary, description=summary)


def run(args: argparse.Namespace) -> int:
    actions = {"make": _make, "check": _check, "fetch": _fetch}
    return actions[args.action](args)


def _make(args: argparse.Namespace) -> int:
    from trainmark.datasets.formats import MakeRequest, make_dataset

    request = MakeRequest(
        num_samples=args.images,
        num_classes=args.classes,
        val_fraction=args.val_fraction,
        seed=args.seed,
        num_workers=args.workers,
        source=args.source,
        as_videos=args.as_videos,
        image_size=args.image_size,
    )
    report = make_dataset(args.format, args.folder, request)
    if args.json:
        print_json(**_plain(asdict(report)))
        return 0
    size = f"{format_bytes(report.num_bytes)}, {format_bytes(report.mean_sample_bytes)} each"
    counts = f"{report.num_train} training and {format_count(report.num_val, f'validation {report.unit}')}"
    classes = f"of {format_count(len(report.classes), 'classes')} in {report.root}"
    print(f"{counts} {classes} ({size}), {format_seconds(report.elapsed_s)}")
    next_command(_run_command(args, num_train=report.num_train))
    return 0


def _check(args: argparse.Namespace) -> int:
    """Exit code 2 if there is a fault: the data set is input, and bad input is refused. Notes are not faults."""
    from trainmark.cli.progress import ByteProgress
    from trainmark.datasets.formats import check_dataset

    with ByteProgress() as progress:
        report = check_dataset(
            args.format,
            args.folder,
            decode=not args.quick,
            num_workers=args.workers,
            add_manifest=args.write_manifest,
            on_hashed=lambda num_files, num_bytes: progress.show(
                f"SHA-256 of {format_count(num_files, 'files')}", num_bytes
            ),
        )
    if args.json:
        apart = {
            "faults": [asdict(fault) for fault in report.serious],
            "notes": [asdict(note) for note in report.notes],
        }
        print_json(**_plain({**asdict(report), **apart}), ok=report.ok)
    else:
        _print_findings(report, args.folder)
        num_train = next((split.num_samples for split in report.splits if split.name.startswith("train")), 0)
        next_command(_run_command(args, num_train=num_train) if report.ok else _remedy(report))
    return 0 if report.ok else 2


def _print_findings(report: CheckReport, folder: Path) -> None:
    """Faults first, so that many notes do not hide one."""
    from rich.text import Text

    console = stdout_console()
    lines = [f"{fault.path}: {fault.problem}" for fault in report.serious]
    lines += [f"{note.path}: note: {note.problem}" for note in report.notes]
    for line in lines[:_MAX_FAULTS_SHOWN]:
        console.print(Text(line))
    if len(lines) > _MAX_FAULTS_SHOWN:
        console.print(Text(f"... and {len(lines) - _MAX_FAULTS_SHOWN} more; --json lists all"))
    counts = ", ".join(f"{split.name} {format_count(split.num_samples, report.unit)}" for split in report.splits)
    verdict = format_count(len(report.serious), "faults") if report.serious else "no faults"
    verdict += f", {format_count(len(report.notes), 'notes')}" if report.notes else ""
    console.print(Text(f"{folder}: {counts}; {verdict}"))
    if report.notes:
        talk(_NOTES_WORDS)
    talk(_MANIFEST_WORDS[report.manifest])


def _remedy(report: CheckReport) -> str:
    """What to do, for each kind of fault: a file of annotations is not removed because of some of its entries."""
    from trainmark.datasets.report import FaultKind

    of_manifest = (FaultKind.UNLISTED, FaultKind.BAD_MANIFEST)
    disagreeing = [fault for fault in report.serious if fault.kind in of_manifest]
    entries = [fault for fault in report.serious if fault.is_entry]
    remedies = {
        "remove or replace the faulty files named above": len(disagreeing) + len(entries) < len(report.serious),
        "fix the entries named above; the file itself is usable": bool(entries),
        "remove files that manifest.sha256 does not list, or write it again": bool(disagreeing),
    }
    return "; ".join(remedy for remedy, is_needed in remedies.items() if is_needed)


def _fetch(args: argparse.Namespace) -> int:
    from rich.text import Text

    from trainmark.cli.progress import ByteProgress
    from trainmark.datasets.fetch.download import Effort
    from trainmark.datasets.fetch.fetch import FetchRequest, fetch
    from trainmark.datasets.fetch.request import parse_checksum

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
            talk("partial downloads are kept; run the same command again to continue")
            raise
    if args.json:
        document = asdict(report)
        unpacked = None if report.unpacked is None else str(report.unpacked)
        print_json(**{**document, "output": str(report.output), "unpacked": unpacked})
        return 0
    console = stdout_console()
    size = f"{format_bytes(report.num_bytes)}, {format_seconds(report.elapsed_s)}"
    parts = "" if report.num_parts == 1 else f" from {report.num_parts} parts"
    checked = f"{report.checked} matches" if report.checked else "no checksum given to compare"
    console.print(Text(plain(f"{report.output}{parts} ({size}); {checked}; sha256 {report.sha256}")))
    if report.num_files is not None:
        console.print(Text(plain(f"{report.unpacked}: {format_count(report.num_files, 'files')} unpacked")))
    if report.unpacked is None:
        next_command(f"the same command with --sha256 {report.sha256} --unpack DIR (downloads nothing again)")
    else:
        next_command(f"trainmark data check FORMAT {shlex.quote(str(report.unpacked))} --write-manifest")
    return 0


def _run_command(args: argparse.Namespace, *, num_train: int) -> str:
    """One that works here: the full size is for GPUs, and a batch must not be larger than the data set."""
    from trainmark.plan.machine import read_machine
    from trainmark.workloads.registry import load_cards

    cards = load_cards()
    card = next((card for card in cards.values() if card.dataset == args.format), cards["resnet50"])
    size = "full" if read_machine().gpus or "small" not in card.sizes else "small"
    argv = ["trainmark", "run", card.name, "--data", str(args.folder)]
    argv += [] if size == "full" else ["--size", size]
    argv += [] if num_train >= card.sizes[size].batch_size else ["--batch-size", str(max(1, num_train))]
    return shlex.join(argv)


def _plain(value: Any) -> Any:
    """Paths and enumerations as text, for JSON."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
