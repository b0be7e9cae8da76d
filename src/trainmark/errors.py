"""Every error a person may meet, and what it tells them.

TrainmarkError              exit code 1
├── InputError              exit code 2: something given to us is wrong, and nothing was started
│   ├── SpecError           a suite or a flag; carries every fault at once
│   ├── DataError           a data set on disk: layout, readability, labels
│   └── StoreError          the folder or database of results cannot be read or written
└── RunError                exit code 1: a run started and did not end well; its folder says why

Each says what happened, why, and the next action; `cli.main` prints them and nothing else prints tracebacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class TrainmarkError(Exception):
    exit_code = 1

    def __init__(self, what: str, *, why: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        return self.what + (f": {self.why}" if self.why else "")


class InputError(TrainmarkError):
    exit_code = 2


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing wrong with a spec: where it stands, what is wrong, what would be right."""

    where: str
    problem: str
    hint: str


class SpecError(InputError):
    def __init__(self, what: str, faults: Sequence[Fault]) -> None:
        super().__init__(what, hint="fix these and run the same command again; nothing was started")
        self.faults = tuple(faults)

    def __str__(self) -> str:
        lines = [self.what, *(f"  {fault.where}: {fault.problem} ({fault.hint})" for fault in self.faults)]
        return "\n".join(lines)


class DataError(InputError):
    pass


class StoreError(InputError):
    pass


class RunError(TrainmarkError):
    pass


def first_line(error: BaseException) -> str:
    """Of an error of somebody else's code: short enough for a reason."""
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]
