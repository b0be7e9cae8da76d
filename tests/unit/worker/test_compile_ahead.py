"""Several processes share the compilation of a network's parts, and the network stays what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torchvision.models.resnet import Bottleneck

from making import make_workload_cell
from trainmark.spec.cell import DataSource
from trainmark.worker.torch import compile_ahead
from trainmark.worker.torch.compile_ahead import CompileHelpers
from trainmark.workloads.torch_parts import CompileShare, compiling
from trainmark.workloads.torch_residual import PartedResNet


def test_every_kind_of_part_is_compiled_by_one_process(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = PartedResNet(Bottleneck, [3, 2, 1, 1], num_classes=3).eval()
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        wanted = model(images)
        taken: dict[str, list[Any]] = {"one": [], "other": []}

        def share_of(name: str) -> CompileShare:
            def note(function: Callable[..., Any]) -> Callable[..., Any]:
                def run(*args: Any) -> Any:
                    taken[name].append(args[0])
                    if name == "one" and len(taken[name]) == 1:  # meanwhile the other one has a whole step
                        with compiling(share_of("other")):
                            torch.testing.assert_close(model(images), wanted)
                    return function(*args)

                return run

            return CompileShare(claims=tmp_path, compile=note)

        with compiling(share_of("one")):
            torch.testing.assert_close(model(images), wanted)
        assert not torch.equal(wanted, torch.zeros_like(wanted))
    # Enter, six further blocks, leave. The second and third block of the first stage differ in their shortcuts' norms.
    parts = [*taken["one"], *taken["other"]]
    assert len(parts) == len({id(part) for part in parts if part is not model}) + 2 == 8
    assert len(taken["one"]) == 1, "who has a long part leaves the others to the rest"


def test_helpers_start_only_for_what_was_never_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, Any]] = []

    class Process:
        def __init__(self, argv: list[str], **options: Any) -> None:
            started.append({**json.loads(argv[-1]), "threads": options["env"]["TORCHINDUCTOR_COMPILE_THREADS"]})

        def wait(self, timeout: float) -> None: ...

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compile_ahead.subprocess, "Popen", Process)
    monkeypatch.setattr(compile_ahead.torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(compile_ahead, "num_helpers", lambda: 4)
    monkeypatch.setattr(compile_ahead, "num_decoders", lambda: 16)
    cell = make_workload_cell(recipe="fast", data=DataSource.parse("/data/imagenet"))
    helpers = CompileHelpers(cell, ["sum_norms"])
    helpers.wait()
    assert [(one["is_first"], one["threads"]) for one in started] == [(number == 0, "4") for number in range(4)]
    assert len({one["claims"] for one in started}) == 1
    assert not Path(started[0]["claims"]).exists()
    assert started[0]["cell"]["data"] == "synthetic"
    assert started[0]["without"] == ["sum_norms"]
    helpers.note_success()
    CompileHelpers(cell, ["sum_norms"])
    assert len(started) == 4
    CompileHelpers(cell, []).wait()
    assert len(started) == 8
    monkeypatch.setattr(compile_ahead, "num_helpers", lambda: 2)
    CompileHelpers(make_workload_cell(recipe="fast", batch_size_per_device=3), [])
    assert len(started) == 8, "two are not worth their start"
