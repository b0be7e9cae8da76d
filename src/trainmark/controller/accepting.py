"""Accepts that runs break a law, with a written reason, or takes that back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainmark.analyse.laws import LAWS, marks_of
from trainmark.errors import InputError, StoreError
from trainmark.runfolder.acceptance import Acceptance, accept, withdraw
from trainmark.units import plain

if TYPE_CHECKING:
    from trainmark.store.index import Store
    from trainmark.store.rows import RunRow

_MIN_REASON = 4
"""Letters; in Chinese these are a sentence."""


def check_request(law: str, because: str | None) -> None:
    """Before anything is read: the law exists, and the reason is one. `because` is None to withdraw."""
    from trainmark.spec.checking import suggest

    if law not in LAWS:
        raise InputError(f"--law: unknown law {law!r}", hint=suggest(law, tuple(LAWS)))
    if because is not None and len(because.strip()) < _MIN_REASON:
        raise InputError(
            "--because: must say why the result is right",
            hint='like --because "the base does not fit into the cache"',
        )


def accept_law(store: Store, rows: Sequence[RunRow], law: str, because: str | None) -> list[str]:
    """The ids of the runs that were changed; all or none, if one of `rows` does not break the law.

    `because` is None to withdraw an earlier acceptance.
    """
    for row in rows:
        _check_run(row, law, is_withdrawal=because is None)
    for row in rows:
        folder = store.root / row.id
        try:
            if because is None:
                withdraw(folder, law)
            else:
                accept(folder, Acceptance(law, plain(because).strip(), time.time()))
        except OSError as error:
            why = error.strerror or str(error)
            raise StoreError(f"cannot write to {folder}", why=why, hint="fix its permissions") from error
        store.index(folder)
    return [row.id for row in rows]


def _check_run(row: RunRow, law: str, *, is_withdrawal: bool) -> None:
    if is_withdrawal:
        accepted = [entry["law"] for entry in row.accepted]
        if law not in accepted:
            raise InputError(f"{law} was not accepted for {row.id}", hint=f"accepted: {', '.join(accepted) or 'none'}")
        return
    broken = [mark.law for mark in marks_of(row)]
    if law not in broken:
        hint = f"it breaks {', '.join(broken)}" if broken else "it breaks no law: there is nothing to accept"
        raise InputError(f"{row.id} does not break {law}", hint=hint)
