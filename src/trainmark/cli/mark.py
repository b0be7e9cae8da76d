"""`trainmark mark`: the one file that a script needs to mark its steps, for interpreters without trainmark."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trainmark import mark
from trainmark.cli.output import next_command

_USE = """\
Put this into the training script, at the end of each step:

    from trainmark import mark
    mark.step(samples=len(batch))

For an interpreter without trainmark, save the module beside the script (trainmark mark --print > mark.py) and write
`import mark`. It needs only the standard library of Python 3.8 or later, and does nothing outside `trainmark run`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--print", action="store_true", help="print the module itself, to be saved as mark.py")


def run(args: argparse.Namespace) -> int:
    if args.print:
        sys.stdout.write(Path(mark.__file__).read_text(encoding="utf-8"))
        return 0
    sys.stdout.write(_USE)
    next_command("trainmark run -- python train.py")
    return 0
