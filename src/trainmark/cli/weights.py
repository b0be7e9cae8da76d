"""`trainmark weights`: the weights of a training, as a file that every framework can start from."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from trainmark.cli.output import IndexingNote, next_command, open_store, refuse_extension, talk, write_whole
from trainmark.cli.parser import add_store_option, path_word
from trainmark.errors import InputError
from trainmark.runfolder.files import is_run
from trainmark.units import format_bytes, format_count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "training", metavar="RUN", help="id of a training (--epochs, --until-target) or its beginning, or its folder"
    )
    parser.add_argument(
        "--output",
        "-o",
        type=path_word,
        required=True,
        metavar="FILE",
        help="file to write, such as resnet50.safetensors",
    )
    add_store_option(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.controller.neutral_weights import read_weights
    from trainmark.controller.results import read_rows
    from trainmark.weights.neutral import pack_weights

    folder, target = Path(args.training), Path(args.output)
    if is_run(folder):  # as completed by a shell
        store_path, run_id = str(folder.parent), folder.resolve().name
    else:
        store_path, run_id = args.store, args.training
    store = open_store(Path(store_path))
    _refuse_target(target)
    weights = read_weights(store.root, read_rows(store, [run_id], tell=IndexingNote()))
    packed = pack_weights(weights.arrays, weights.about)
    write_whole({target: packed}, what="weights")
    count = format_count(len(weights.arrays), "tensors")
    talk(f"{count} of {weights.workload} written to {target} ({format_bytes(len(packed))})")
    next_command(
        shlex.join(["trainmark", "run", weights.workload, *weights.options, "--weights", str(target)]), store=store_path
    )
    return 0


def _refuse_target(target: Path) -> None:
    if str(target) == "-":
        raise InputError("--output: weights are written to a file, not to the standard output", hint="give a file name")
    folder = next((folder for folder in target.resolve().parents if is_run(folder)), None)
    if folder is not None:
        why = f"{folder} is the folder of a run, whose files must not change"
        raise InputError(f"--output: cannot write to {target}", why=why, hint="choose a file in another folder")
    hint = f"use {shlex.quote(str(target.with_suffix('.safetensors')))}, which run --weights reads in every framework"
    refuse_extension(target, (".safetensors",), what="a safetensors file", hint=hint)
