"""Settings of PyTorch's compiler that hold for the whole process, and where it keeps what it compiled."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Collection
from typing import Any

from trainmark.cache_folder import CACHE_VARIABLE, compile_cache_folder

_MAX_VARIANTS = 128
"""Of one function that several kinds of blocks share, at each of the sizes that batches are padded to: about 60 in Mask
R-CNN. By default the compiler gives up after eight."""
_CPP_COMPILERS = ("g++", "gcc", "cc", "clang")


def has_cpp_compiler() -> bool:
    """Whether PyTorch's compiler can build what starts the kernels that it compiles."""
    return any(shutil.which(name) for name in _CPP_COMPILERS)


def configure_compiler() -> None:
    """Before the first compilation. A folder that the user has chosen for the compiler's cache is kept."""
    import torch._dynamo.config as dynamo
    import torch._dynamo.guards as guards
    import torch._functorch.config as functorch

    os.environ.setdefault(CACHE_VARIABLE, str(compile_cache_folder(os.environ)))
    dynamo.recompile_limit = _MAX_VARIANTS
    # For its debug log the compiler times the guards of every graph, and empties the processor's caches for that: 40 ms
    # each on a small machine.
    if hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = _time_no_guards
    # Ours depend on nothing but their arguments. Without this a graph that has one is never kept.
    functorch.autograd_cache_allow_custom_autograd_functions = True
    # The compiler looks at the gradient of every input of a part, and most are no leaves.
    warnings.filterwarnings("ignore", message=r"The \.grad attribute of a Tensor that is not a leaf Tensor")


def compiler_options(uses: Collection[str]) -> dict[str, Any]:
    """Of one compilation, for a training that uses these optimisations."""
    options: dict[str, Any] = {}
    if "found_signs" in uses:
        # What has more reads than this and several users is written to memory first. A sign that is found again has
        # six, and written it costs more than it saves: 0.957 of the speed on an H200.
        options["realize_reads_threshold"] = 16
    if "tuned_pointwise" in uses:
        options["max_autotune_pointwise"] = True
    return options


def _time_no_guards(*_: object) -> float:
    return 0.0


def import_compiler() -> None:
    """Everything that the first compilation would import, with the settings that hold for the process."""
    configure_compiler()
    import torch._inductor.compile_fx  # noqa: F401
