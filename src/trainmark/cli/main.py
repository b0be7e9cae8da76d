"""The command line: verbs in the order of work; an error is one sentence and a hint.

argparse, since `--help` must take under 0.1 s: only the module of the requested verb is loaded, and it imports what is
heavy inside its functions. `docs/decisions/0011-argparse-with-own-messages.md` has the reason.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys

import trainmark
from trainmark.cli.guard import guard
from trainmark.cli.output import end_like_ctrl_c
from trainmark.cli.parser import Parser
from trainmark.errors import InputError

VERBS = {
    "list": "list what can be measured, read and written",
    "doctor": "show this machine and what could disturb a measurement",
    "data": "make, check or fetch a data set",
    "plan": "show what run would do and how long it takes; starts nothing",
    "run": "measure a workload, a suite or a command of your own",
    "mark": "print the file with which a script can mark its steps",
    "import": "read the logs of other training programs",
    "show": "show the results in the terminal",
    "compare": "say whether B is faster or slower than A, or the same",
    "accept": "admit runs that break a law, with a written reason",
    "check": "judge the latest runs against a baseline file, for CI",
    "parity": "check that frameworks train the same thing",
    "ablate": "say what each optimisation of the recipe fast is worth here",
    "report": "write a report of the results",
    "export": "write the results in the formats of other systems",
    "weights": "write the weights of a training for any framework",
}
"""In the order of work, with their summaries. A verb is the module of its name with add_arguments(parser) and
run(args) -> exit code; list_ and import_ end in an underscore, since Python uses these names itself."""


_READING = frozenset({"show", "report", "plan"})
"""They start nothing that has to be ended."""
_COLLECT_AFTER = 500_000
"""New objects until Python looks for cycles. The usual 700 would take a quarter of the time of a large table."""


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """`only`: the verb whose module is loaded and whose arguments are known; None: all."""
    parser = Parser(
        prog="trainmark",
        description="Measures how fast machines train neural networks.",
        epilog="Start with: trainmark run quick. Exit codes: 0 ok, 1 a run failed, 2 bad input, 3 and 4 of check, "
        "128+n signal n.",
    )
    parser.add_argument("--version", action="version", version=f"trainmark {trainmark.__version__}")
    # For the help only: `main` takes it out wherever it stands.
    parser.add_argument("--debug", action="store_true", help="after any verb too: show the traceback of an error")
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    for name, summary in VERBS.items():
        child = verbs.add_parser(name, help=summary, description=summary)
        if only in (None, name):
            module = importlib.import_module(f"trainmark.cli.{name}{'_' if name in ('list', 'import') else ''}")
            module.add_arguments(child)
            child.set_defaults(run=module.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    own = words[: words.index("--")] if "--" in words else words
    is_debug = "--debug" in own
    words = [word for word in own if word != "--debug"] + words[len(own) :]
    end_like_ctrl_c()
    gc.set_threshold(_COLLECT_AFTER)
    code = guard(lambda: _run(words), is_debug=is_debug)
    if argv is None and words[:1] and words[0] in _READING:
        _end_at_once(code)
    return code


def _end_at_once(code: int) -> None:
    """Python would free each part of a large table first, which takes a third as long as to make it."""
    sys.stderr.flush()  # stdout was flushed by the guard
    os._exit(code)


def _run(words: list[str]) -> int:
    args = _parse(words)
    return int(args.run(args))


def _parse(words: list[str]) -> argparse.Namespace:
    """The words after the first -- of `run` are the user's command and are not parsed."""
    cut = words.index("--") if words[:1] == ["run"] and "--" in words else len(words)
    args = build_parser(only=words[0] if words else "").parse_args(words[:cut])
    args.words = words
    if args.verb == "run":
        if args.command:
            raise InputError(f"unexpected argument {args.command[0]!r}", hint="put -- before a command")
        args.command = words[cut + 1 :] if cut < len(words) else None
    return args


if __name__ == "__main__":
    sys.exit(main())
