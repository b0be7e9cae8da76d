"""`trainmark data`: make a data set to train on, fetch one, or check one that is there."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.cli import data_fetch
from trainmark.cli.output import add_json_flag, next_command, print_json, stdout_console, talk
from trainmark.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from trainmark.datasets.report import CheckReport

_MAX_FAULTS_SHOWN = 50
_MANIFEST_WORDS = {
    "absent": "no manifest.sha256 to compare with; --write-manifest writes one",
    "unchecked": "--quick: no checksum of manifest.sha256 was compared",
    "verified": "every file is as manifest.sha256 says",
    "differs": "manifest.sha256 does not agree and was left as it is; "
    "if the files are as they should be, remove it and run again with --write-manifest",
    "written": "manifest.sha256 written, of the files as they are now",
}
_NOTES_WORDS = "notes: a run converts such files and leaves out such entries"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    make = _add_action(actions, "make", "generate a data set in the layout of the real one")
    make.add_argument("--images", type=int, metavar="N", help="how many images (or clips) in all")
    make.add_argument("--classes", type=int, metavar="N", help="how many classes")
    make.add_argument("--val-fraction", type=float, metavar="X", help="part of the images for validation")
    make.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same bytes")
    make.add_argument("--source", type=Path, metavar="DIR", help="original files, for a format that converts")
    make.add_argument("--as-videos", action="store_true", default=None, help="video files instead of folders of frames")
    check = _add_action(actions, "check", "check the layout and every file of a data set")
    depth = check.add_mutually_exclusive_group()
    depth.add_argument("--quick", action="store_true", help="look at the ends of files only; no decoding, no checksums")
    depth.add_argument("--write-manifest", action="store_true", help="write manifest.sha256 where there is none")
    fetch = _add_action(actions, "fetch", "download an archive, check it and unpack it")
    data_fetch.add_arguments(fetch)
    for action in (make, check):
        action.add_argument("format", metavar="FORMAT", help="see `trainmark list formats`")
        action.add_argument("folder", type=Path, metavar="DIR")
        action.add_argument("--workers", type=int, metavar="N", help="processes or threads (default: all cores)")
        add_json_flag(action)


def _add_action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    return actions.add_parser(name, help=summary, description=summary)


def run(args: argparse.Namespace) -> int:
    actions = {"make": _make, "check": _check, "fetch": data_fetch.run}
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
    )
    report = make_dataset(args.format, args.folder, request)
    if args.json:
        print_json(**_plain(asdict(report)))
        return 0
    size = f"{format_bytes(report.num_bytes)}, {format_bytes(report.mean_sample_bytes)} each"
    counts = f"{report.num_train} training and {format_count(report.num_val, f'validation {report.unit}')}"
    classes = f"of {format_count(len(report.classes), 'classes')} in {report.root}"
    print(f"{counts} {classes} ({size}), {format_seconds(report.elapsed_s)}")
    next_command(_run_command(args))
    return 0


def _check(args: argparse.Namespace) -> int:
    """Exit code 2 where something is wrong: the data set is input, and bad input is refused. Notes are not wrong."""
    from trainmark.cli.byte_progress import ByteProgress
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
        next_command(_run_command(args) if report.ok else _remedy(report))
    return 0 if report.ok else 2


def _print_findings(report: CheckReport, folder: Path) -> None:
    """Faults first, so that no number of notes pushes one out of sight."""
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
    """For each sort of fault its own: a file of annotations is not thrown away for some of its entries."""
    from trainmark.datasets.report import FaultKind

    of_manifest = (FaultKind.UNLISTED, FaultKind.BAD_MANIFEST)
    disagreeing = [fault for fault in report.serious if fault.kind in of_manifest]
    entries = [fault for fault in report.serious if fault.is_entry]
    remedies = {
        "remove or replace the faulty files named above": len(disagreeing) + len(entries) < len(report.serious),
        "mend the entries named above, not the whole file": bool(entries),
        "remove what manifest.sha256 does not list, or write it anew": bool(disagreeing),
    }
    return "; ".join(remedy for remedy, is_needed in remedies.items() if is_needed)


def _run_command(args: argparse.Namespace) -> str:
    from trainmark.workloads.registry import load_cards

    users = [card.name for card in load_cards().values() if card.dataset == args.format]
    return f"trainmark run {users[0] if users else 'resnet50'} --data {shlex.quote(str(args.folder))}"


def _plain(value: Any) -> Any:
    """Paths and enumerations as text, for JSON."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
