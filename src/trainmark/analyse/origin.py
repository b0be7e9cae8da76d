"""What tables ask about the work, code and machine of every run, in a few words.

The index keeps it with the analysis of a run: a table of thousands of runs needs neither their environments nor their
whole identities, which say the same at length.
"""

from __future__ import annotations

from typing import NamedTuple

from trainmark.analyse.identity import digest_of, framework_version, identity_of
from trainmark.store.rows import RunRow


class Origin(NamedTuple):
    work: str | None
    code: str | None
    machine: str | None
    """The hashes of the identity."""
    place: str | None
    """None if all three are known; else the folder of the log, or the sweep, within which runs may be averaged."""
    pooling_host: str | None
    """Within which runs may be averaged; None where something else tells the machine."""
    work_in_any_unit: str
    """Hash."""
    framework: str
    program: str
    commit: str
    changes: str
    """Versions of framework and trainmark, commit, and hash of uncommitted changes; empty if unknown."""
    host: str
    cores: str
    """Empty if unknown."""
    version: str | None
    """Of the framework, with its name."""

    @property
    def software(self) -> tuple[str, str, str, str]:
        return self.framework, self.program, self.commit, self.changes


def origin_of(row: RunRow) -> Origin:
    """As the index keeps it, or found now."""
    found: Origin | None = row.found.get("origin")
    if found is None:
        found = row.found["origin"] = Origin._make(row.origin) if row.origin else find_origin(row)
    return found


def pooling_key(row: RunRow) -> tuple[object, ...]:
    """Runs with the same key are repeats of one measurement and may be averaged."""
    own = origin_of(row)
    return own.work, own.code, own.machine, own.place, row.machine, own.pooling_host


def find_origin(row: RunRow) -> Origin:
    own, facts = identity_of(row), row.environment
    machine = own.facts["machine"]
    git = facts["git"] if isinstance(facts.get("git"), dict) else {}
    return Origin(
        work=own.work,
        code=own.code,
        machine=own.machine,
        place=None if own.is_known else own.place,
        pooling_host=_pooling_host(row),
        work_in_any_unit=digest_of(frozenset(fact for fact in own.facts["work"].items() if fact[0] != "unit")),
        framework=str(facts.get("framework") or ""),
        program=str(facts.get("trainmark") or ""),
        commit=str(git.get("commit") or ""),
        changes=str(git.get("diff_sha256") or ""),
        host=machine.get("host", ""),
        cores=machine.get("cores", ""),
        version=framework_version(row),
    )


def _pooling_host(row: RunRow) -> str | None:
    """Two hosts of the same model are two lines, unless the GPUs prove that they are one machine, or the host name is
    that of a container, which is new for each one."""
    machine = identity_of(row).facts["machine"]
    has_own_name = "gpus" not in machine and not row.environment.get("container")
    is_older = "script" not in row.environment and "gpus" not in row.environment
    return machine.get("host") if has_own_name or is_older else None
