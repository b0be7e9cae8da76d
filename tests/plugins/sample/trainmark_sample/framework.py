"""A framework: declared here without importing it, so that `trainmark list` and `plan` are quick."""

from __future__ import annotations

from trainmark.frameworks import Framework

FRAMEWORK = Framework(
    name="sample",
    summary="plain Python, one process",
    module="trainmark_sample",
    distribution="trainmark-sample",
    engine="trainmark_sample.engine",
)
