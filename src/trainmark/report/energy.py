"""Energy as `--json` has it: watts of each kind of counter over the steady steps, and samples per joule."""

from __future__ import annotations

from typing import Any

from trainmark.analyse.analysis import analysis_of, powers_of
from trainmark.analyse.energy import Power, main_kind, samples_per_joule
from trainmark.store.rows import RunRow


def describe_energy(row: RunRow) -> dict[str, Any] | None:
    """None for a run that is not ours or has no speed."""
    powers, kind = powers_of(row), main_kind(row)
    if not powers:
        return None
    ratio = samples_per_joule(analysis_of(row).estimate, [powers[kind]]) if kind in powers else None
    return {
        "scope": kind,
        "samples_per_joule": ratio.value if ratio is not None else None,
        "ci95": list(ratio.ci95) if ratio is not None and ratio.ci95 else None,
        **{name: _describe(power) for name, power in powers.items()},
    }


def _describe(power: Power) -> dict[str, Any]:
    watts = power.watts
    return {
        "watts": None
        if watts is None
        else {"value": watts.value, "ci95": list(watts.ci95) if watts.ci95 else None, "readings": watts.num_steps},
        "counters": power.num_counters,
        "sampled_watts": power.sampled_w,
        "why_not_measured": power.missing.english if power.missing is not None else None,
    }
