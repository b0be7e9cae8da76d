"""The answer, before any table: the best configuration of each workload, what it gained, what changed, what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainmark.analyse.analysis import estimate_run
from trainmark.analyse.estimate import speedup
from trainmark.analyse.laws import marks_of
from trainmark.analyse.scaling import Case, Study
from trainmark.analyse.table import Line
from trainmark.analyse.training import time_to_train
from trainmark.analyse.verdict import judge
from trainmark.messages.answers import (
    answer_all_ok,
    answer_changed,
    answer_failed,
    answer_fastest,
    answer_frameworks,
    answer_marked,
    answer_more,
    answer_nothing,
    answer_outcome,
    answer_scaling,
    answer_speed,
    answer_target,
    answer_times,
    answer_too_noisy,
    answer_unmeasured,
)
from trainmark.messages.message import Message
from trainmark.report.cells import format_ratio, say_devices, say_workload
from trainmark.report.words import RUNNING
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_count, format_interval, format_number, format_plus_minus, plain

_MOST, _MANY = 4, 8
"""Sentences of one kind, and of all kinds: where there are more, two of a kind are said and the rest is counted."""
_MOST_SPEEDS = 6
"""Two workloads in three frameworks."""
_CAUSES = {
    "communication": "communication",
    "compute": "slower compute",
    "rest": "neither communication nor compute",
}
_VERDICTS = {"faster": "faster", "slower": "slower", "same": "the same", "inconclusive": "undecided"}

_TOO_NOISY, _UNMEASURED = "too noisy", "without a measured speed"
"""Why a run that ended well has no result."""


@dataclass(frozen=True, kw_only=True)
class Sentence:
    parts: tuple[Message, ...]
    """Read one after the other, joined by commas."""
    kind: str
    """`good`, `plain`, `bad` or `doubt`: how it is shown beside the words."""
    key: Message | None = None
    """The part of the first sentence that a reader looks for: a number with its unit."""

    def in_language(self, lang: str) -> str:
        joined = ("，" if lang == "zh" else ", ").join(part.in_language(lang) for part in self.parts)
        return plain(joined + ("。" if lang == "zh" else "."))


def tell(lines: Sequence[Line], studies: Sequence[Study]) -> list[Sentence]:
    if not any(line.known for line in lines):
        return _tell_no_speed(lines)
    best = fastest_lines(lines)
    fastest = [_tell_fastest(line, lines) for line in best]
    others = [list(_tell_scaling(studies)), list(_tell_changes(lines)), list(_tell_targets(lines))]
    most = _MOST if len(fastest) + sum(map(len, others)) <= _MANY else 2
    num_more = sum(max(0, len(sentences) - most) for sentences in others) + max(0, len(fastest) - _MOST_SPEEDS)
    return [
        *fastest[:_MOST_SPEEDS],
        *_tell_frameworks(best),
        *(sentence for sentences in others for sentence in sentences[:most]),
        *([Sentence(parts=(answer_more(num=num_more),), kind="plain")] if num_more else []),
        *_tell_endings(lines),
        *_tell_doubts(lines),
    ]


def _tell_no_speed(lines: Sequence[Line]) -> list[Sentence]:
    """Why there is no speed to report: nothing finished, the runs differ too much, or they recorded no steps."""
    if not any(line.num_ok for line in lines):
        return [Sentence(parts=(answer_nothing(),), kind="bad"), *_tell_endings(lines)]
    noisy = [line for line in lines if line.estimate is not None]
    sentences = [Sentence(parts=(_say_noisy(line, names=len(lines) > 1),), kind="doubt") for line in noisy[:_MOST]]
    if len(noisy) > _MOST:
        sentences.append(Sentence(parts=(answer_more(num=len(noisy) - _MOST),), kind="plain"))
    unmeasured = Counter(_why_no_result(line, run) for line in lines for run in line.runs)[_UNMEASURED]
    if unmeasured:
        sentences.append(Sentence(parts=(answer_unmeasured(runs=unmeasured),), kind="doubt"))
    is_all_ok = all(run.outcome == "ok" for line in lines for run in line.runs)
    return sentences if is_all_ok else [*sentences, *_tell_endings(lines)]


def _say_noisy(line: Line, *, names: bool) -> Message:
    assert line.estimate is not None
    spread = line.estimate.spread
    seen = answer_speed(value=format_interval(spread), unit=line.first.unit) if spread is not None else None
    num = sum(_why_no_result(line, run) == _TOO_NOISY for run in line.runs)
    return answer_too_noisy(what=_name(line) if names else None, runs=num, seen=seen)


def fastest_lines(lines: Sequence[Line]) -> list[Line]:
    """The best of each workload, unit, size and framework, ours before others; what breaks a law is not the best.

    Of each framework, since only a parity check (`trainmark compare`) may call one of them faster.
    """
    best: dict[tuple[object, ...], Line] = {}
    for line in lines:
        if line.known is None or any(marks_of(run) for run in line.runs):
            continue
        kind = _kind(line.first)
        if kind not in best or line.known.value > _value(best[kind]):
            best[kind] = line
    return sorted(best.values(), key=lambda line: line.first.workload is None)


def _value(line: Line) -> float:
    return line.known.value if line.known is not None else 0.0


def _kind(row: RunRow) -> tuple[object, ...]:
    return (row.workload or row.model or row.source, row.unit, row.size, row.framework)


def _tell_fastest(best: Line, lines: Sequence[Line]) -> Sentence:
    assert best.known is not None
    value = answer_speed(value=format_number(best.known.value), unit=best.first.unit)
    relative = best.known.relative_half_width
    interval = format_plus_minus(relative) if relative is not None else None
    parts = [
        answer_fastest(what=say_workload(best, "en"), speed=value, interval=interval, configuration=configuration(best))
    ]
    base = _plain_line(best, lines)
    if base is not None and base.known is not None:
        ratio = speedup(best.known, base.known)
        parts.append(answer_times(times=format_ratio(ratio, "", sign_after=""), base=_recipe(base.first)))
    return Sentence(parts=tuple(parts), kind="good", key=value)


def _tell_frameworks(best: Sequence[Line]) -> Iterator[Sentence]:
    """Where several stand beside each other, a reader would take the larger number for the winner."""
    named: dict[tuple[object, ...], dict[str, None]] = {}
    for line in best:
        *work, framework = _kind(line.first)
        if line.first.source == "trainmark" and framework is not None:
            named.setdefault(tuple(work), {})[str(framework)] = None
    apart = [names for names in named.values() if len(names) > 1]
    if apart:
        first, second, *_ = apart[0]
        command = f"trainmark compare framework={first} framework={second}"
        names = list(dict.fromkeys(name for group in apart for name in group))
        yield Sentence(parts=(answer_frameworks(frameworks=names, command=command),), kind="doubt")


def _plain_line(best: Line, lines: Sequence[Line]) -> Line | None:
    """The reference recipe in fp32, on as many devices of the same machine with the same data; None if it is `best`."""
    row = best.first
    same = (*_kind(row), row.devices, row.machine, row.data)
    for line in lines:
        own = line.first
        is_same = (*_kind(own), own.devices, own.machine, own.data) == same
        if is_same and own.recipe == "reference" and own.precision == "fp32" and line is not best and line.known:
            return line
    return None


def _recipe(row: RunRow) -> str:
    batch = f"batch {row.batch_size_per_device}" if row.batch_size_per_device else None
    return " ".join(part for part in (row.recipe, row.precision, batch) if part)


def configuration(line: Line) -> str:
    """fast bf16, 1 × 8, batch 128, torch: what a person would have to choose."""
    row = line.first
    what = " ".join(part for part in (row.framework, row.recipe, row.precision) if part)
    devices = say_devices(line, "en")
    devices = format_count(int(devices), "devices") if devices.isdecimal() else devices
    batch = f"batch {row.batch_size_per_device}" if row.batch_size_per_device else None
    return plain(", ".join(part for part in (what, devices if devices != ABSENT else None, batch) if part) or ABSENT)


def _tell_scaling(studies: Sequence[Study]) -> Iterator[Sentence]:
    frameworks = {case.line.first.framework for study in studies for case in study.cases if case.line is not None}
    for study in studies:
        measured = [case for case in study.cases if case.efficiency is not None and case.speedup is not None]
        if measured and study.mode != "strong":
            yield _tell_case(max(measured, key=lambda case: case.devices), names_framework=len(frameworks) > 1)


def _tell_case(case: Case, *, names_framework: bool) -> Sentence:
    assert case.line is not None
    assert case.baseline is not None
    assert case.efficiency is not None
    split = case.lost_time.split if case.lost_time is not None else None
    framework = case.line.first.framework if names_framework else None
    what = (say_workload(case.line, "en"), framework, _recipe(case.line.first))
    told = answer_scaling(
        what=" ".join(part for part in what if part),
        devices=case.devices,
        base=case.baseline.first.devices or 1,
        speedup=format_ratio(case.speedup, "", sign_after=""),
        efficiency=format_ratio(case.efficiency, "%", sign_after=""),
        cause=_CAUSES[split.cause] if split is not None else None,
    )
    return Sentence(parts=(told,), kind="good" if case.efficiency.value >= 0.9 else "doubt")


def _tell_changes(lines: Sequence[Line]) -> Iterator[Sentence]:
    """The newest environment of each configuration against the one before it."""
    variants: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        if line.variant and line.known is not None and line.first.dialect is None:
            variants.setdefault((line.first.cell_id, line.first.unit), []).append(line)
    for same in variants.values():
        if len(same) < 2:
            continue
        *_, old, new = sorted(same, key=lambda line: line.first.started_unix_s or 0.0)
        judged = judge(_speeds(old), _speeds(new))
        told = answer_changed(
            what=_name(new), new=new.variant, old=old.variant, verdict=_VERDICTS.get(judged.verdict, "undecided"),
            why=judged.why,
        )  # fmt: skip
        yield Sentence(parts=(told,), kind={"faster": "good", "slower": "bad"}.get(judged.verdict, "plain"))


def _name(line: Line) -> str:
    return f"{line.first.workload or line.first.model or ABSENT} {configuration(line)}"


def _speeds(line: Line) -> list[float]:
    return [found.value for run in line.runs if (found := estimate_run(run)) is not None]


def _tell_targets(lines: Sequence[Line]) -> Iterator[Sentence]:
    for line in lines:
        reached = [(seconds, run) for run in line.runs if (seconds := time_to_train(run)) is not None]
        if reached:
            seconds, run = min(reached, key=lambda pair: pair[0])
            what = f"{say_workload(line, 'en')} {configuration(line)}"
            yield Sentence(parts=(answer_target(what=what, seconds=seconds, target=say_target(run)),), kind="good")


def say_target(run: RunRow) -> str:
    stated = run.log.get("target")
    if not run.until_target and isinstance(stated, dict):
        return plain(f"{stated.get('metric') or ''} {stated.get('value')}".strip())
    return plain(", ".join(f"{metric} {value:g}" for metric, value in run.until_target.items())) or ABSENT


def _tell_endings(lines: Sequence[Line]) -> list[Sentence]:
    runs = [run for line in lines for run in line.runs]
    failed = Counter(why for line in lines for run in line.runs if (why := _why_no_result(line, run)) is not None)
    if not failed:
        return [Sentence(parts=(answer_all_ok(runs=len(runs)),), kind="plain")]
    outcomes = [answer_outcome(num=num, outcome=outcome) for outcome, num in failed.most_common()]
    told = answer_failed(failed=sum(failed.values()), runs=len(runs), outcomes=outcomes)
    return [Sentence(parts=(told,), kind="bad" if failed.keys() - {_TOO_NOISY, _UNMEASURED} else "doubt")]


def _why_no_result(line: Line, run: RunRow) -> str | None:
    """None for a run that has a speed. A run that ended well may have none, and then its outcome does not say why."""
    if run.outcome != "ok":
        return run.outcome or RUNNING
    if estimate_run(run) is None:
        return _UNMEASURED
    return _TOO_NOISY if line.known is None else None


def _tell_doubts(lines: Sequence[Line]) -> Iterator[Sentence]:
    marked = [line for line in lines if any(marks_of(run) for run in line.runs)]
    if marked:
        laws = sorted({mark.law for line in marked for run in line.runs for mark in marks_of(run)})
        yield Sentence(parts=(answer_marked(num=len(marked), laws=laws),), kind="doubt")
