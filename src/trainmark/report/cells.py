"""The texts of table cells: what each column says about a line, in the console and in Markdown."""

from __future__ import annotations

from trainmark.analyse.analysis import analysis_of, powers_of
from trainmark.analyse.energy import Power, main_kind, samples_per_joule
from trainmark.analyse.estimate import TOO_NOISY, Estimate, Ratio
from trainmark.analyse.naming import short_model
from trainmark.analyse.noise import limiting_doubts
from trainmark.analyse.table import Line
from trainmark.analyse.utilisation import find_utilisation, latest_peak
from trainmark.report.remarks import LAW_MARK, is_marked, is_row_marked
from trainmark.report.words import UNITS, WORDS, name_doubt, say_outcome
from trainmark.units import ABSENT, format_bytes, format_interval, format_number, format_plus_minus

OTHER_BASELINE_MARK = "*"
"""After a ratio whose baseline was measured in another environment; a note below the table explains it."""


def say_workload(line: Line, _: str) -> str:
    """resnet50 (small) @ torch 2.11"""
    first = line.first
    size = f" ({first.size})" if first.size not in (None, "full") else ""
    variant = f" @ {line.variant}" if line.variant else ""
    return f"{first.workload or short_model(first)}{size}{variant}"


def say_devices(line: Line, _: str) -> str:
    """2 × 4 (nodes × devices per node), or 8 if the number of nodes is unknown"""
    first = line.first
    devices = str(first.devices or ABSENT)
    counts = f"{first.nodes} × {first.devices // first.nodes}" if first.devices and first.nodes else devices
    return f"{counts} CPU" if first.device == "cpu" else counts


def say_data(line: Line, _: str) -> str:
    """The last part of a path, after `cached:` if the data is cached."""
    data = line.first.data
    if data is None:
        return ABSENT
    kind, colon, path = data.partition(":") if data.startswith("cached:") else ("", "", data)
    return f"{kind}{colon}{path.rstrip('/').rsplit('/', 1)[-1]}" if "/" in path else data


def say_runs(line: Line, lang: str) -> str:
    """3, or 2/3 (oom)"""
    failed = ", ".join(sorted({say_outcome(run, lang) for run in line.problems}))
    return f"{line.num_ok}/{len(line.runs)} ({failed})" if line.problems else str(line.num_ok)


def say_unit(unit: str, lang: str) -> str:
    return UNITS[lang].get(unit, f"{unit}/s")


def say_throughput(line: Line, lang: str) -> str:
    """1,234 images/s; 1,234! images/s if a run behind it breaks a law"""
    if line.estimate is None:
        return ABSENT
    sign = LAW_MARK if is_marked(line) else ""
    if line.estimate.is_too_noisy:
        return f"{WORDS[lang]['too_noisy']}{sign}"
    return f"{format_number(line.estimate.value)}{sign} {say_unit(line.first.unit, lang)}"


def say_interval(line: Line, lang: str) -> str:
    """Of a result that is too noisy the rates that were seen, of a refused interval the reason in two words."""
    estimate = line.estimate
    if estimate is None:
        return ABSENT
    if estimate.is_too_noisy:
        return WORDS[lang]["seen"].format(spread=format_interval(estimate.spread))
    if _is_refused(estimate):
        return name_doubt(limiting_doubts(estimate)[0].code, lang)
    return format_interval(estimate.ci95)


def say_relative(line: Line, lang: str) -> str:
    estimate = line.estimate
    if estimate is None:
        return ABSENT
    if estimate.is_too_noisy:
        return WORDS[lang]["beyond"].format(limit=TOO_NOISY)
    if _is_refused(estimate):
        return name_doubt(limiting_doubts(estimate)[0].code, lang)
    return format_plus_minus(estimate.relative_half_width)


def say_utilisation(line: Line, lang: str) -> str:
    """24%, or that it is above the peak, which is an error and not a number"""
    found = find_utilisation(line.first, line.known, latest_peak(line))
    if found is None:
        return ABSENT
    return f"{found:.0%}" if found <= 1 else WORDS[lang]["above_peak"]


def _is_refused(estimate: Estimate) -> bool:
    return estimate.ci95 is None and bool(limiting_doubts(estimate))


def say_speedup(line: Line, _: str) -> str:
    return ABSENT if line.speedup is None else format_ratio(line.speedup, "", sign_after=ratio_sign(line))


def say_efficiency(line: Line, _: str) -> str:
    return ABSENT if line.efficiency is None else format_ratio(line.efficiency, "%", sign_after=ratio_sign(line))


def ratio_sign(line: Line) -> str:
    """Says that a ratio has a baseline of another environment, or rests on a run that breaks a law."""
    other = OTHER_BASELINE_MARK if line.has_other_baseline else ""
    return other + (LAW_MARK if is_marked(line) or is_row_marked(line.baseline) else "")


def format_ratio(ratio: Ratio | None, sign: str, *, sign_after: str) -> str:
    """1.87* (1.85 … 1.89)"""
    if ratio is None:
        return ABSENT
    factor = 100 if sign else 1
    value = f"{format_number(factor * ratio.value, digits=3)}{sign}{sign_after}"
    if ratio.ci95 is None:
        return value
    low, high = (format_number(factor * bound, digits=3) for bound in ratio.ci95)
    return f"{value} ({low} … {high})"


def say_last_metric(line: Line, _: str) -> str:
    """The last value of the main metric in each run; the first metric of a workload is its main one."""
    values = []
    name = None
    for run in line.runs:
        name = name or next((str(e["metric"]) for e in run.evals), None)
        own = [e["value"] for e in run.evals if e["metric"] == name]
        values += own[-1:]
    if not values:
        return ABSENT
    return f"{name} " + ", ".join(format_number(value, digits=3) for value in values)


def per_joule(line: Line) -> Ratio | None:
    """None unless every repeat measured it."""
    kind, powers = main_kind(line.first), list[Power]()
    for run in line.runs:
        if run.outcome == "ok":
            if kind not in analysis_of(run).powered:
                return None
            powers.append(powers_of(run)[kind])
    return samples_per_joule(line.estimate, powers)


def say_per_joule(line: Line, lang: str) -> str:
    """14.2 (14.1 … 14.3) images/J: of the accelerators, or of the processors of a run on these"""
    found = per_joule(line)
    if found is None:
        return ABSENT
    per_second = say_unit(line.first.unit, lang)
    unit = per_second.removesuffix("/s").removesuffix("/秒")
    return f"{format_ratio(found, '', sign_after='')} {unit}/{'焦耳' if lang == 'zh' else 'J'}"


def say_peak_memory(line: Line, _: str) -> str:
    return format_bytes(max(run.peak_memory_bytes or 0 for run in line.runs) or None)
