"""Scaling studies as text: the table of each, why a count is missing, and what made the efficiency poor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from trainmark.analyse.estimate import Ratio
from trainmark.analyse.laws import is_admitted
from trainmark.analyse.scaling import Case, Missing, Study
from trainmark.analyse.table import Line
from trainmark.analyse.variants import name_apart
from trainmark.report.cells import OTHER_BASELINE_MARK, format_ratio
from trainmark.report.columns import describe_estimate, describe_line, differing_columns, heading, table_columns
from trainmark.report.layout import fold, print_texts, table_texts
from trainmark.report.remarks import LAW_MARK, is_marked
from trainmark.report.words import WORDS, name_outcome
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_bytes, format_number, format_seconds, plain


def titles(studies: Sequence[Study], lang: str) -> list[str]:
    """One per study; with framework and machine if two would be the same otherwise."""
    short = [_title(study, lang) for study in studies]
    return [
        text if short.count(text) == 1 else _title(study, lang, more=differing_columns())
        for study, text in zip(studies, short, strict=True)
    ]


def _title(study: Study, lang: str, *, more: Sequence[str] = ()) -> str:
    """weak scaling: resnet50 (small) reference fp32, CPU, batch/device 4, synthetic"""
    words, base = WORDS[lang], study.baseline.line
    assert base is not None
    named = ("workload", "recipe", "precision", "data", *more)
    cells = {name: text for name, text in describe_line(base, lang, only=named).items() if text != ABSENT}
    what = " ".join(cells[name] for name in ("workload", "recipe", "precision") if name in cells)
    parts = [what.replace(f" @ {base.variant}", "") if base.variant else what]
    parts += [cells[name] for name in more if name in cells]
    parts += ["CPU"] if study.first.device == "cpu" else []
    if study.batch_size is not None:
        what = words["global_batch"] if study.mode == "strong" else heading("batch_size_per_device", lang)
        parts.append(f"{what} {study.batch_size}")
    parts += [cells["data"]] if "data" in cells else []
    return plain(f"{words[study.mode]}{words['colon']}{', '.join(parts)}")


def columns(study: Study) -> tuple[str, ...]:
    batch = ("batch_size_per_device",) if study.mode == "strong" else ()
    variant = ("software",) if any(case.line is not None and case.line.variant for case in study.cases) else ()
    return ("nodes", "devices", *batch, *variant, "throughput", "interval", "relative", "speedup", "efficiency")


def say_heading(name: str, lang: str) -> str:
    return heading(name, lang) if name in table_columns() else WORDS[lang][name]


def describe_case(case: Case, lang: str) -> dict[str, str]:
    """For a missing count, the throughput says so."""
    words = WORDS[lang]
    measured = ("throughput", "interval", "relative")
    cells = describe_line(case.line, lang, only=measured) if case.line is not None else {}
    is_base, sign = case.line is not None and case.baseline is None, _ratio_sign(case)
    texts = {
        "nodes": str(case.nodes or ABSENT),
        "devices": str(case.devices),
        "batch_size_per_device": str(case.batch_size_per_device or ABSENT),
        "software": (case.line.variant if case.line is not None else "") or ABSENT,
        "throughput": cells.get("throughput", words["missing"]),
        "interval": cells.get("interval", ABSENT),
        "relative": cells.get("relative", ABSENT),
        "speedup": words["base"] if is_base else format_ratio(case.speedup, "", sign_after=sign),
        "efficiency": format_ratio(case.efficiency, "%", sign_after=sign),
    }
    return {name: plain(text) for name, text in texts.items()}


def _ratio_sign(case: Case) -> str:
    other = OTHER_BASELINE_MARK if case.has_other_baseline else ""
    return other + (LAW_MARK if is_marked(case.line) or is_marked(case.baseline) else "")


def explain(case: Case, lang: str) -> str:
    """Why it is missing, what it is compared with, and why its efficiency is poor; empty if there is nothing to say."""
    return WORDS[lang]["semicolon"].join(
        text for text in (_explain_base(case, lang), _explain_number(case, lang)) if text
    )


def _explain_base(case: Case, lang: str) -> str:
    if case.line is None or case.baseline is None or not case.has_other_baseline:
        return ""
    base, own = name_apart(case.baseline.first, case.line.first)
    return plain(f"{OTHER_BASELINE_MARK} {WORDS[lang]['other_base'].format(base=base or ABSENT, own=own or ABSENT)}")


def _explain_number(case: Case, lang: str) -> str:
    words = WORDS[lang]
    if case.missing is not None:
        return plain(f"{words['missing']}{words['colon']}{_explain_missing(case.missing, lang)}")
    if case.lost_time is None or case.efficiency is None:
        return ""
    share = f"{format_number(100 * case.efficiency.value, digits=2)}%"
    split, lost_s = case.lost_time.split, case.lost_time.lost_s
    if split is None or lost_s is None:
        reason = case.lost_time.reason.in_language(lang) if case.lost_time.reason is not None else ABSENT
        return plain(words["why_unknown"].format(efficiency=share, reason=reason))
    part_s = {"communication": split.communication_s, "compute": split.compute_s, "rest": split.rest_s}[split.cause]
    rate = split.allreduce_gb_per_s
    return words[f"why_{split.cause}"].format(
        efficiency=share,
        share=words["part_of" if part_s < lost_s else "all_of"].format(
            part=format_seconds(part_s), lost=format_seconds(lost_s)
        ),
        size=format_bytes(split.gradient_bytes),
        rate=words["at_rate"].format(rate=f"{format_number(rate, digits=2)} GB/s") if rate else "",
        twin=format_seconds(split.twin_s),
        ideal=format_seconds(split.ideal_twin_s),
    )


def _explain_missing(missing: Missing, lang: str) -> str:
    words = WORDS[lang]
    head = words[missing.why] if missing.outcome is None else name_outcome(missing.outcome, lang)
    return head if missing.reason is None else f"{head}{words['colon']}{missing.reason.in_language(lang)}"


def print_studies(studies: Sequence[Study], console: Console, *, lang: str = "en") -> None:
    print_texts(say_studies(studies, console, lang=lang), console)


def say_studies(studies: Sequence[Study], console: Console, *, lang: str = "en") -> list[str]:
    """Below the table of results, which has the throughputs: only what it does not say."""
    texts: list[str] = []
    for study, title in zip(studies, titles(studies, lang), strict=True):
        told = [(case, why) for case in study.cases if (why := explain(case, lang))]
        ratios = [case for case in study.cases if case.line is not None and not _is_in_results(case)]
        if not told and not ratios:
            continue
        base = f"{WORDS[lang]['base']}{WORDS[lang]['colon']}{name_count(study.baseline)}"
        texts += ["", fold(f"{title} ({base})", console, indent=0)]
        texts += _table_texts(study, ratios, console, lang) if ratios else []
        for case, why in told:
            variant = f" @ {case.line.variant}" if case.line is not None and case.line.variant else ""
            texts.append(fold(plain(f"  {name_count(case)}{variant}: {why}"), console, indent=4))
    return texts


def _is_in_results(case: Case) -> bool:
    """Lines have the speed-up over fewer devices with the same batch size per device."""
    return case.baseline is None or (case.line is not None and case.line.speedup == case.speedup)


def _table_texts(study: Study, cases: Sequence[Case], console: Console, lang: str) -> list[str]:
    shown = [name for name in columns(study) if name not in ("throughput", "interval", "relative")]
    headings = {name: say_heading(name, lang) for name in shown}
    if "batch_size_per_device" in headings:
        headings["batch_size_per_device"] = WORDS[lang]["short_batch"]
    rows = [[describe_case(case, lang)[name] for name in shown] for case in cases]
    is_right = [name != "software" for name in shown]
    return table_texts(list(headings.values()), rows, console, is_right=is_right)


def name_count(case: Case) -> str:
    """2 × 4: nodes × devices per node."""
    return f"{case.nodes} × {case.devices // case.nodes}" if case.nodes else str(case.devices)


def describe_studies(studies: Sequence[Study]) -> list[dict[str, Any]]:
    """For `--json`."""
    return [
        {
            "mode": study.mode,
            **{name: getattr(study.first, name) for name in ("workload", "model", "dialect", "framework", "recipe",
               "precision", "size", "device", "data", "epochs", "machine")},
            "batch_size_per_device": study.batch_size if study.mode == "weak" else None,
            "global_batch_size": study.batch_size if study.mode == "strong" else None,
            "base": {"nodes": study.baseline.nodes, "devices": study.baseline.devices},
            "lines": [_describe_case(case, study) for case in study.cases],
        }
        for study in studies
    ]  # fmt: skip


def _describe_case(case: Case, study: Study) -> dict[str, Any]:
    estimate = case.line.estimate if case.line is not None else None
    split = case.lost_time.split if case.lost_time is not None else None
    return {
        "nodes": case.nodes,
        "devices": case.devices,
        "batch_size_per_device": case.batch_size_per_device,
        "runs": [run.id for run in case.line.runs] if case.line is not None else [],
        "throughput": describe_estimate(estimate, study.first.unit),
        "base": _describe_base(case),
        "speedup": _describe_ratio(case.speedup),
        "efficiency": _describe_ratio(case.efficiency),
        "marked_runs": [run.id for line in (case.line, case.baseline) for run in _marked_runs(line)],
        "missing": _describe_missing(case.missing) if case.missing is not None else None,
        "lost_s": case.lost_time.lost_s if case.lost_time is not None else None,
        "lost_to": asdict(split) if split is not None else None,
        "cause": split.cause if split is not None else None,
        "why": explain(case, "en") or None,
    }


def _marked_runs(line: Line | None) -> list[RunRow]:
    """Runs behind a number that break a law and were not accepted."""
    return [run for run in line.runs if run.outcome == "ok" and not is_admitted(run)] if line is not None else []


def _describe_missing(missing: Missing) -> dict[str, str]:
    """`detail` is the reason of a skip, or the outcome and the reason of a failure."""
    parts = (missing.outcome, missing.reason.english if missing.reason is not None else None)
    return {"why": missing.why, "detail": ": ".join(part for part in parts if part is not None)}


def _describe_base(case: Case) -> dict[str, Any] | None:
    if case.baseline is None:
        return None
    first, runs = case.baseline.first, [run.id for run in case.baseline.runs]
    is_same = not case.has_other_baseline
    return {"nodes": first.nodes, "devices": first.devices, "runs": runs, "same_environment": is_same}


def _describe_ratio(ratio: Ratio | None) -> dict[str, Any] | None:
    return None if ratio is None else {"value": ratio.value, "ci95": list(ratio.ci95) if ratio.ci95 else None}
