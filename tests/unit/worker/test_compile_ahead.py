"""Several processes share the compilation of a network's parts, and the network stays what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
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
            request = json.loads(argv[-1])
            threads = options["env"]["TORCHINDUCTOR_COMPILE_THREADS"]
            started.append({"cell": request["cell"], **request["task"], "threads": threads})

        def wait(self, timeout: float) -> None:
            self.returncode = 0

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compile_ahead.subprocess, "Popen", Process)
    monkeypatch.setattr(compile_ahead.torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(compile_ahead, "num_helpers", lambda _: 4)
    monkeypatch.setattr(compile_ahead, "num_decoders", lambda: 16)
    cell = make_workload_cell(recipe="fast", data=DataSource.parse("/data/imagenet"))
    helpers = CompileHelpers(cell, ["sum_norms"], num_classes=10)
    helpers.wait()
    assert [(one["is_first"], one["threads"]) for one in started] == [(number == 0, "4") for number in range(4)]
    assert len({one["claims"] for one in started}) == 1
    assert not Path(started[0]["claims"]).exists()
    assert started[0]["cell"]["data"] == "synthetic"
    assert started[0]["without"] == ["sum_norms"]
    assert started[0]["num_classes"] == 10
    assert not helpers.is_cache_warm
    helpers.note_success()
    assert CompileHelpers(cell, ["sum_norms"], num_classes=10).is_cache_warm
    assert len(started) == 4
    CompileHelpers(cell, [], num_classes=10).wait()
    assert len(started) == 8
    CompileHelpers(cell, ["sum_norms"], num_classes=1000).wait()
    assert len(started) == 12, "the last layer is another one"
    CompileHelpers(cell, ["sum_norms"], num_classes=10, shapes=[(800, 1216, 8), (800, 1344, 8)]).wait()
    assert len(started) == 16, "and so are the shapes"
    assert started[-1]["shapes"] == [[800, 1216, 8], [800, 1344, 8]]
    monkeypatch.setattr(compile_ahead, "num_helpers", lambda _: 2)
    CompileHelpers(make_workload_cell(recipe="fast", batch_size_per_device=3), [], num_classes=10)
    assert len(started) == 16, "two are not worth their start"


@pytest.mark.parametrize(
    ("workload", "precision", "batch_size", "number"),
    [
        ("hrnet_w18", "bf16", 8, 7),
        ("hrnet_w18", "bf16", 16, 3),  # 20 GB each as it was measured, where 7 would take the whole card
        ("hrnet_w18", "fp32", 8, 3),
        ("hrnet_w18", "bf16", 4, 7),
        ("psenet", "amp", 64, 1),
    ],
)
def test_the_helpers_of_a_large_batch_fit_into_memory(
    workload: str, precision: str, batch_size: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = SimpleNamespace(total_memory=140 << 30)
    monkeypatch.setattr(compile_ahead.torch.cuda, "get_device_properties", lambda _: card)
    monkeypatch.setattr(compile_ahead.torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(compile_ahead, "num_decoders", lambda: 16)
    cell = make_workload_cell(
        workload=workload, recipe="fast", precision=precision, size="full", batch_size_per_device=batch_size
    )
    assert compile_ahead.num_helpers(cell) == number


def test_what_a_failed_helper_left_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Process:
        def __init__(self, argv: list[str], **_: Any) -> None:
            self.returncode = 0 if json.loads(argv[-1])["task"]["is_first"] else 1

        def wait(self, timeout: float) -> None: ...

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compile_ahead.subprocess, "Popen", Process)
    monkeypatch.setattr(compile_ahead.torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(compile_ahead, "num_helpers", lambda _: 4)
    CompileHelpers(make_workload_cell(recipe="fast"), [], num_classes=10).wait()
    assert "3 of 4 processes that compile ahead failed" in capsys.readouterr().err
