"""argparse's complaints as our own errors: what, and the next action, instead of the whole usage."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable
from typing import Any, Never

from trainmark.errors import InputError

_REQUIRED = "the following arguments are required: "
_NO_NUMBER = {"int": "whole number", "float": "number"}


class Parser(argparse.ArgumentParser):
    """Of trainmark, of each verb and of each action of a verb: argparse makes the inner ones of the same class."""

    _words: tuple[str, ...] = ()

    def parse_known_args(  # type: ignore[override] # nobody here gives another namespace
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Knows them all, or says which it does not know: the innermost parser can name the flag that was meant."""
        self._words = tuple(args or ())
        found, unknown = super().parse_known_args(self._words, namespace)
        if unknown:
            raise self._describe_unknown(unknown[0])
        return found, []

    def error(self, message: str) -> Never:
        if message.startswith(_REQUIRED):
            raise self._describe_missing(message.removeprefix(_REQUIRED))
        text = re.sub(r"^argument ", "", message)
        text = re.sub(
            r"invalid (int|float) value: (.*)", lambda match: f"{match[2]} is no {_NO_NUMBER[match[1]]}", text
        )
        raise InputError(text, hint=self._see_help())

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        from trainmark.spec.parse import suggest

        what = f"{'/'.join(action.option_strings)} {value!r} is not known"
        if not action.option_strings:
            what = f"{value!r} is no {str(action.metavar or action.dest).lower()} of {self.prog}"
        raise InputError(what, hint=suggest(value, tuple(map(str, action.choices))))

    def _describe_missing(self, names: str) -> InputError:
        """A flag that must be there may be there misspelt."""
        flags = self._flags()
        for word in self._words:
            name = word.split("=", 1)[0]
            if name.startswith("--") and not any(flag.startswith(name) for flag in flags):
                return self._describe_unknown(word)
        return InputError(f"{names} {'are' if ', ' in names else 'is'} missing", hint=self._see_help())

    def _describe_unknown(self, word: str) -> InputError:
        if not word.startswith("-"):
            return InputError(f"{word!r} is one word too many", hint=self._see_help())
        name = word.split("=", 1)[0]
        close = difflib.get_close_matches(name, self._flags(), n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        return InputError(f"{name} is no flag of {self.prog}", hint=f"{meant}{self._see_help()}")

    def _flags(self) -> list[str]:
        return [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]

    def _see_help(self) -> str:
        return f"see {self.prog} --help"
