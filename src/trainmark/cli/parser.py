"""The options that several verbs share, and argparse's complaints as our own errors: what is wrong, and a hint."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import difflib
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Never

from trainmark.errors import InputError

DEFAULT_STORE = "runs"
_REQUIRED = "the following arguments are required: "


class Parser(argparse.ArgumentParser):
    """Of trainmark, of each verb and of each action of a verb: argparse makes the inner ones of the same class."""

    _words: tuple[str, ...] = ()

    def parse_known_args(  # type: ignore[override] # nobody here passes another kind of namespace
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuses unknown words here, in the innermost parser: it knows which option was probably meant."""
        self._words = tuple(args or ())
        found, unknown = super().parse_known_args(self._words, namespace)
        if unknown:
            raise self._describe_unknown(unknown[0])
        return found, []

    def error(self, message: str) -> Never:
        if message.startswith(_REQUIRED):
            raise self._describe_missing(message.removeprefix(_REQUIRED))
        raise InputError(re.sub(r"^argument ", "", message), hint=self._see_help())

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        from trainmark.spec.checking import suggest

        name = "/".join(action.option_strings)
        kind = str(action.metavar or action.dest).lower()
        what = f"{name}: unknown value {value!r}" if name else f"unknown {kind} {value!r}"
        raise InputError(what, hint=suggest(value, tuple(map(str, action.choices))))

    def _describe_missing(self, names: str) -> InputError:
        """A required option may be there, but misspelt."""
        options = self._options()
        for word in self._words:
            name = word.split("=", 1)[0]
            if name.startswith("--") and not any(option.startswith(name) for option in options):
                return self._describe_unknown(word)
        noun = "option" if names.startswith("--") else "argument"
        return InputError(f"missing {noun}{'s' if ', ' in names else ''}: {names}", hint=self._see_help())

    def _describe_unknown(self, word: str) -> InputError:
        if not word.startswith("-"):
            return InputError(f"unexpected argument {word!r}", hint=self._see_help())
        name = word.split("=", 1)[0]
        close = difflib.get_close_matches(name, self._options(), n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        return InputError(f"unknown option {name}", hint=f"{meant}{self._see_help()}")

    def _options(self) -> list[str]:
        return [option for action in self._actions for option in action.option_strings if option.startswith("--")]

    def _see_help(self) -> str:
        return f"see {self.prog} --help"


# -- values ------------------------------------------------------------------------------------------------------------


def integer(least: int = 1, most: int = 2**31 - 1) -> Callable[[str], int]:
    bounds = f">= {least}" if most == 2**31 - 1 else f"from {least} to {most}"

    def parse(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]+", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be an integer {bounds}, got {text!r}")
        return int(text)

    return parse


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


_AGO = re.compile(r"(\d{1,6})(min|h|d|w)")
_UNITS_S = {"min": 60, "h": 3600, "d": 86_400, "w": 604_800}
MOMENT = "a time in UTC (2026-11-16, 2026-11-16T08:00), seconds of 1970 (date +%%s) or an age (90min, 12h, 7d, 2w)"


def moment(text: str) -> float:
    """Seconds since 1970. UTC, as all times that are printed."""
    if ago := _AGO.fullmatch(text):
        return time.time() - int(ago[1]) * _UNITS_S[ago[2]]
    with contextlib.suppress(ValueError):
        return float(text)
    try:
        found = datetime.datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        hint = "such as 2026-11-16T08:00 or 7d"
        raise argparse.ArgumentTypeError(f"must be a time, {hint}, got {text!r}") from None


def path_word(text: str) -> str:
    """An empty variable of a script would otherwise mean the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


# -- options of several verbs ------------------------------------------------------------------------------------------

_LIST_OPTIONS = {
    "framework": "such as torch (default: the first installed one that the workload supports)",
    "recipe": "reference, fast",
    "precision": "fp32, tf32, amp, bf16, fp16 (weights in half precision too: paddle)",
    "size": "full, small (some workloads have medium too)",
    "nodes": "number of machines",
    "devices": "devices per machine",
    "batch-size": "samples per device and step",
    "data": "synthetic, cached:DIR or DIR",
}
_NUMBER_OPTIONS = {
    "N": {
        "epochs": "train this many epochs, with evaluations, instead of measuring until the speed is known",
        "seed": "for weights, order and augmentation",
        "repeat": "run each cell this many times",
        "max-steps": "stop measuring after this many steps",
    },
    "X": {
        "lr": "peak learning rate, instead of the recipe's own for the global batch",
        "target-ci": "stop when the 95%% interval is within this fraction (default 0.01)",
        "min-seconds": "measure at least this long (default 5)",
        "max-seconds": "measure at most this long (default 120)",
        "timeout-s": "kill a run that takes longer in total (default: max-seconds plus 30 minutes; trainings: none)",
        "hang-least-s": "no step for this long (default 20; training: 300, command: 600) and ...",
        "hang-factor": "... for this many times the usual step (default 20) is a hang",
    },
}
_INTEGERS = ("nodes", "devices", "batch_size")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def add_store_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store", default=DEFAULT_STORE, type=path_word, metavar="DIR", help="folder of results (default: runs)"
    )


def add_machine_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--hosts", metavar="A,B", help="machines to use, the first is the master: name or name=address")
    group.add_argument("--cluster", metavar="FILE", help="TOML file with the keys of a suite's [cluster] table")


def add_spec_options(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """What to measure, for `plan` and `run`."""
    from trainmark.launch.registry import launchers

    what = "a workload, a shipped suite or a suite file (see `trainmark list`)"
    parser.add_argument("what", metavar="WHAT", nargs="?" if is_optional else None, help=what)
    axes = parser.add_argument_group("axes (a list measures all combinations: --precision fp32,amp)")
    for name, text in _LIST_OPTIONS.items():
        axes.add_argument(f"--{name}", metavar="A,B", help=text)
    axes.add_argument("--device", metavar="KIND", help="cpu or cuda (default: cuda if there is a GPU)")
    axes.add_argument(
        "--weights",
        metavar="FILE",
        type=path_word,
        help="start from a checkpoint of a run in any framework, or a .pth, .pt, .pdparams or .safetensors file; "
        "read as data, never run",
    )
    how = parser.add_argument_group("how long and how often")
    for metavar, options in _NUMBER_OPTIONS.items():
        for name, text in options.items():
            how.add_argument(f"--{name}", metavar=metavar, help=text)
    how.add_argument(
        "--until-target",
        nargs="?",
        const=True,
        metavar="X",
        help="train until the recipe's metric reaches its target (or X, a fraction)",
    )
    where = parser.add_argument_group("where")
    where.add_argument(
        "--launcher", choices=launchers().names(), default="auto", help="how to start processes; dry prints the command"
    )
    add_machine_options(where)
    where.add_argument(
        "--image",
        metavar="NAME",
        help="container image that the runs use, with @sha256:... if known; recorded in env.json",
    )
    where.add_argument(
        "--allow-env",
        metavar="A,B",
        help="variables that the suite may set beside those of known libraries",
    )
    add_store_option(parser)
    add_json_option(parser)


def read_overrides(args: argparse.Namespace) -> dict[str, Any]:
    """The spec options that were given, as the raw values that TOML would hold; `spec` checks them."""
    values = {name: value for name, value in vars(args).items() if value is not None}
    found: dict[str, Any] = {}
    for option in _LIST_OPTIONS:
        name = option.replace("-", "_")
        if name in values:
            parts = [part.strip() for part in values[name].split(",")]
            found[name] = [_number(part) for part in parts] if name in _INTEGERS else parts
    for option in (*(name for options in _NUMBER_OPTIONS.values() for name in options), "until_target"):
        name = option.replace("-", "_")
        if name in values:
            found[name] = _number(values[name])
    found |= {name: values[name] for name in ("device", "weights") if name in values}
    if args.allow_env is not None:
        found["allow_env"] = [part.strip() for part in args.allow_env.split(",")]
    image = {} if args.image is None else {"image": args.image}
    return {**found, **read_cluster_options(args), **image}


def read_cluster_options(args: argparse.Namespace) -> dict[str, Any]:
    """The keys of a [cluster] table."""
    from trainmark.spec.files import read_cluster_file

    found = read_cluster_file(Path(args.cluster)) if args.cluster is not None else {}
    if args.hosts is not None:
        found["hosts"] = [part.strip() for part in args.hosts.split(",")]
    return found


def _number(text: str | bool) -> int | float | str | bool:
    """Text that is not a number stays as it is, for `spec` to refuse; True is --until-target without a value."""
    for kind in (int, float):
        if not isinstance(text, bool):
            try:
                return kind(text)
            except ValueError:
                continue
    return text
