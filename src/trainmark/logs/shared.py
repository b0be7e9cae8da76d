"""Probes for every log: what launchers, drivers and AI-Rank's protocol print whatever the dialect is."""

from __future__ import annotations

from trainmark.logs.dialect import Probe

EVERYWHERE: tuple[Probe, ...] = ()
ENDS: tuple[Probe, ...] = ()
