"""What a person types for one side of a comparison, and the runs that it means.

runs                       a store: a folder of run folders
old-logs/                  a folder of logs or one log: read into a temporary store, which is deleted again
20261116T0322              run ids that begin so; also the path of a run folder
main, 1a2b3c4d             a branch or a commit
precision=amp              runs of the store with this fact; several are separated by commas
STORE@COMMIT               of another store; STORE:precision=amp and STORE@COMMIT:precision=amp too
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from trainmark.analyse.comparison import Side
from trainmark.analyse.identity import identity_of, rows_of_commit
from trainmark.analyse.pairing import FREE, VARIABLE
from trainmark.controller.results import read_rows
from trainmark.errors import InputError, StoreError
from trainmark.runfolder.files import RUN_FILE
from trainmark.spec.checking import suggest
from trainmark.store.index import INDEX_FILE
from trainmark.units import format_count, plain

if TYPE_CHECKING:
    from trainmark.controller.importing import ShowProgress
    from trainmark.store.index import Store, Tell
    from trainmark.store.rows import RunRow

_ALIASES = {"batch-size": "batch size per device", "lr": "learning rate"}
_BARE = ("suite", "framework", "recipe", "precision", "machine", "host")
"""Facts whose value may stand for itself: `fp32` for precision=fp32."""
_MOST_NAMED = 4


class Selector:
    """Resolves the words of one command: a store that both name is read once."""

    def __init__(
        self,
        default: Path,
        *,
        open_store: Callable[..., Store],
        stack: ExitStack,
        tell: Tell,
        show_progress: ShowProgress,
    ) -> None:
        """`stack`: closed by the caller when the rows are no longer needed; deletes temporary stores."""
        self._default = default
        self._open_store = open_store
        self._stack = stack
        self._tell = tell
        self._show_progress = show_progress
        self._read: dict[Path, list[RunRow]] = {}

    def select(self, word: str) -> Side:
        if not word:
            raise InputError("a side of a comparison must not be empty", hint="see trainmark compare --help")
        path = Path(word)
        if path.exists():
            return self._select_path(word, path)
        store, commit, facts = self._split(word)
        if commit is None and facts is None:
            return self._select_name(word)
        rows = context = self._rows_of(store)
        if commit is not None:
            rows = rows_of_commit(rows, commit)
        wanted = facts.split(",") if facts else []
        for fact in wanted:
            rows = select_fact(rows, fact)
        is_folder = any(fact.partition("=")[0].strip() == "folder" for fact in wanted)
        return Side(word=word, rows=rows, context=context, is_one_place=is_folder, store=str(store))

    def _split(self, word: str) -> tuple[Path, str | None, str | None]:
        """STORE@COMMIT:FACTS, each part but one optional. A folder may have such characters in its own name."""
        head, colon, facts = word.rpartition(":")
        if colon and "=" in facts:
            store, at, commit = head.rpartition("@")
            if at and (not store or Path(store).is_dir()):
                return Path(store or self._default), commit, facts
            return self._known(head), None, facts
        if "=" in word:
            return self._default, None, word
        store, at, commit = word.rpartition("@")
        if at:
            return self._known(store), commit, None
        return self._default, None, None

    def _known(self, text: str) -> Path:
        path = Path(text) if text else self._default
        if not path.is_dir():
            raise StoreError(f"store not found: {text}", hint="pass a folder of runs, such as runs@COMMIT")
        return path

    # -- paths ---------------------------------------------------------------------------------------------------------

    def _select_path(self, word: str, path: Path) -> Side:
        if (path / RUN_FILE).is_file():
            store, name = path.resolve().parent, path.resolve().name
            context = self._rows_of(store)
            rows = [row for row in context if row.id == name]
            return Side(word=word, rows=rows, context=context, store=str(store))
        if path.is_dir() and _is_store(path):
            rows = self._rows_of(path)
            return Side(word=word, rows=rows, context=rows, store=word)
        return self._import(word, path)

    def _import(self, word: str, path: Path) -> Side:
        from trainmark.controller.importing import ImportOptions, import_logs
        from trainmark.logs.record import Facts

        root = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="trainmark-compare-")))
        # The index must be a file of its own: TRAINMARK_DB names the database of a team.
        store = self._open_store(root, url=f"sqlite:///{root / INDEX_FILE}")
        options = ImportOptions(paths=[path], given=Facts())
        result = import_logs(options, store, show_progress=self._show_progress, tell=self._tell)
        return Side(word=word, rows=result.rows, context=result.rows, is_one_place=True)

    def _rows_of(self, root: Path) -> list[RunRow]:
        key = root.resolve()
        if key not in self._read:
            self._read[key] = read_rows(self._open_store(root), tell=self._tell)
        return self._read[key]

    # -- names ---------------------------------------------------------------------------------------------------------

    def _select_name(self, word: str) -> Side:
        if not self._default.is_dir():
            hint = f"pass a store, a folder of logs, or --store DIR; the store {self._default} does not exist"
            raise InputError(f"not found: {word}", hint=hint)
        context = self._rows_of(self._default)
        by_id = [row for row in context if row.id.startswith(word)]
        try:
            by_commit = rows_of_commit(context, word)
        except InputError:
            by_commit = []
        facts = [f"{key}={word}" for key in _BARE if any(_has(row, key, word) for row in context)]
        meanings = [*(["run=" + word] if by_id else []), *(["commit=" + word] if by_commit else []), *facts]
        if len(meanings) > 1:
            raise InputError(f"{word!r} is ambiguous", hint=f"pass one of: {', '.join(meanings)}")
        if facts:
            return Side(word=word, rows=select_fact(context, facts[0]), context=context, store=str(self._default))
        if not meanings:
            raise InputError(
                f"not found: {word}",
                why=f"neither a path, nor a run id, commit, branch, suite, framework, recipe, precision or machine of "
                f"{self._default}",
                hint=f"{_say_values(context, 'commit')}; `trainmark show` lists the runs",
            )
        return Side(word=word, rows=by_id or by_commit, context=context, store=str(self._default))


def parse_vary(words: Sequence[str]) -> frozenset[str]:
    """The names of facts of the work, typed with spaces or hyphens."""
    found = {_ALIASES.get(word, word.replace("-", " ")) for word in words}
    for name in sorted(found - VARIABLE - FREE):
        raise InputError(f"--vary: unknown value {name!r}", hint=suggest(name, sorted(VARIABLE)))
    return frozenset(found)


def _is_store(path: Path) -> bool:
    return (path / INDEX_FILE).is_file() or next(path.glob(f"*/{RUN_FILE}"), None) is not None


def select_fact(rows: Sequence[RunRow], fact: str) -> list[RunRow]:
    """`precision=amp`: the runs with this value, or whose only value begins so."""
    key, equals, wanted = (part.strip() for part in fact.partition("="))
    if not equals or not wanted:
        raise InputError(f"{fact!r}: expected NAME=VALUE", hint="such as precision=amp or machine=H200")
    if key == "run":
        return _at_least_one([row for row in rows if row.id.startswith(wanted)], rows, fact, "run")
    if key == "commit":
        return rows_of_commit(rows, wanted)
    if key == "folder":
        inside = [row for row in rows if PurePath(row.source).is_relative_to(wanted)]
        return _at_least_one(inside, rows, fact, key)
    values = {row.id: _value_of(row, key) for row in rows}
    if not any(values.values()):
        names = sorted({name for row in rows for name in _names_of(row)})
        raise InputError(f"{fact}: no run has the fact {key!r}", hint=suggest(key, names))
    equal = [row for row in rows if _fold(values[row.id]) == _fold(wanted)]
    if equal:
        return equal
    near = [row for row in rows if _is_near(values[row.id], wanted, anywhere=key == "machine")]
    several = sorted({str(values[row.id]) for row in near})
    if len(several) > 1:
        named = ", ".join(several[:_MOST_NAMED])
        raise InputError(f"{fact} is ambiguous: {named}", hint="pass the whole value")
    return _at_least_one(near, rows, fact, key)


def _value_of(row: RunRow, key: str) -> str | None:
    """Of a fact as its identity names it, with spaces or hyphens."""
    own = {"suite": row.suite, "machine": row.machine, "folder": str(PurePath(row.source).parent)}
    if key in own:
        return own[key]
    name = _ALIASES.get(key, key.replace("-", " "))
    identity = identity_of(row)
    return identity.fact(name) or identity.fact(key)


def _has(row: RunRow, key: str, word: str) -> bool:
    """A machine by whole words of its name: any letter is part of one, and a mistyped path must not be a machine."""
    value = _value_of(row, key)
    if value is None or _fold(value) == _fold(word):
        return value is not None
    whole = rf"(?<!\w){re.escape(_fold(word))}(?!\w)"
    return key == "machine" and re.search(whole, _fold(value)) is not None


def _names_of(row: RunRow) -> list[str]:
    facts = identity_of(row).facts
    return ["suite", "machine", "run", *(name.replace(" ", "-") for axis in facts.values() for name in axis)]


def _fold(value: str | None) -> str:
    return (value or "").casefold()


def _is_near(value: str | None, wanted: str, *, anywhere: bool) -> bool:
    return _fold(wanted) in _fold(value) if anywhere else _fold(value).startswith(_fold(wanted))


def _at_least_one(found: list[RunRow], rows: Sequence[RunRow], fact: str, key: str) -> list[RunRow]:
    if not found:
        raise InputError(f"no run has {fact}", hint=_say_values(rows, key))
    return found


def _say_values(rows: Sequence[RunRow], key: str) -> str:
    """found: precision=fp32 (6 runs), precision=amp (3 runs)"""
    if key == "run":
        return f"run ids begin with {rows[-1].id[:13]}" if rows else "there are no runs"
    counts = Counter(value for row in rows if (value := _value_of(row, key)) is not None)
    if not counts:
        return f"no run has a {key}"
    shown = [
        f"{key}={plain(value)[:40]} ({format_count(num, 'runs')})" for value, num in counts.most_common(_MOST_NAMED)
    ]
    return f"found: {', '.join(shown)}"
