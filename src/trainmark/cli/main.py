"""The command line: verbs in the order of work, errors as a sentence with the next action.

argparse, since `--help` must start in a quarter of a second; a verb's module imports what is heavy inside `run`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

import trainmark
from trainmark.cli import data, doctor, export, import_, list_, plan, report, run, show
from trainmark.cli.output import exit_code_of, interrupt
from trainmark.cli.parser import Parser
from trainmark.errors import InputError, SpecError, TrainmarkError
from trainmark.units import plain

VERBS = (list_, doctor, data, plan, run, import_, show, report, export)
"""In the order of work. A verb is a module with NAME, SUMMARY, add_arguments(parser) and run(args) -> exit code."""


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="trainmark",
        description="Measures how fast machines train neural networks, proves the number and says why.",
        epilog="Start with: trainmark run quick. Exit codes: 0 ok, 1 a run failed, 2 bad input, 3 regression found.",
    )
    parser.add_argument("--version", action="version", version=f"trainmark {trainmark.__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb in VERBS:
        child = verbs.add_parser(verb.NAME, help=verb.SUMMARY, description=verb.SUMMARY)
        verb.add_arguments(child)
        child.set_defaults(run=verb.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    signal.signal(signal.SIGTERM, interrupt)  # pre-emption ends like Ctrl-C: in order, with partial results kept
    try:
        args = _parse(words)
        return int(args.run(args))
    except TrainmarkError as error:
        _print_error(error)
        return error.exit_code
    except KeyboardInterrupt as came:
        print("interrupted", file=sys.stderr)
        return exit_code_of(came)
    except BrokenPipeError:
        # `trainmark show | head`: the reader has gone, which is no error. Python would complain at exit otherwise.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parse(words: list[str]) -> argparse.Namespace:
    """What stands after the first -- of `run` is a command: its words are not ours to interpret."""
    cut = words.index("--") if words[:1] == [run.NAME] and "--" in words else len(words)
    args = build_parser().parse_args(words[:cut])
    args.words = words
    if args.verb == run.NAME:
        if args.command:
            raise InputError(f"{args.command[0]!r} is one word too many", hint="a command stands after --")
        args.command = words[cut + 1 :] if cut < len(words) else None
    return args


def _print_error(error: TrainmarkError) -> None:
    print(f"error: {plain(error.what)}", file=sys.stderr)
    if isinstance(error, SpecError):
        for fault in error.faults:
            print(f"  {plain(fault.where)}: {plain(fault.problem)}", file=sys.stderr)
            print(f"    hint: {plain(fault.hint)}", file=sys.stderr)
        return
    if error.why:
        print(f"  why: {plain(error.why)}", file=sys.stderr)
    if error.hint:
        print(f"  hint: {plain(error.hint)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
