"""Sees the steps of a training script from inside its process, without an edit to the script.

`trainmark run -- CMD` puts the folder `hook/` first on PYTHONPATH. Every Python process of the command then runs
`hook/sitecustomize.py` at its start, which waits for the import of a framework and only then loads the modules beside
this file, by their path:

    framework_hooks   which module watches which framework
    recorder          writes records into the run folder
    step_counter      from optimizer steps, batches and pauses to step records, for all frameworks
    batch_size        samples and tokens of what a data loader returns or a model gets
    watch_torch, watch_paddle, watch_keras, watch_jax

These modules run in the interpreters of other people, which may be old and have no trainmark: they use the standard
library only, the syntax of Python 3.8 (the hook itself that of any Python), and import each other only for types.
Nothing here may change a result, the random state, or the exit code of a script, and no failure may reach it.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "TRAINMARK_OBSERVE"
"""The variable with the path of the run folder."""
HOOK_FOLDER = Path(__file__).parent / "hook"


def with_hook(python_path: str | None) -> str:
    """A value for PYTHONPATH with the hook before what is there already."""
    return os.pathsep.join(part for part in (str(HOOK_FOLDER), python_path) if part)
