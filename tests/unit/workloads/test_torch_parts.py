"""What a helper process compiles is what the training asks the compile cache for, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.utils import compilation_time_metrics
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree

from trainmark.workloads.hrnet_w18.torch_fast import FastNetwork
from trainmark.workloads.torch_parts import CompileShare, compiling, run_part, uncompiled


def test_the_compiler_does_not_see_how_parts_are_shared_out(tmp_path: Path) -> None:
    network = Network()
    x = torch.arange(6.0).view(2, 3)
    wanted = network(x)
    share = CompileShare(claims=tmp_path, compile=compile_plainly)
    others = CompileShare(claims=tmp_path, compile=lambda function: function)
    with compiling(others):
        network(x)  # all parts belong to another process now
    with compiling(share):
        num_frames, got = count_frames(network, x)
    assert torch.equal(got, wanted)
    in_training, got = count_frames(network, x)
    assert torch.equal(got, wanted)
    assert num_frames == in_training - 2, "those of the parts"


def count_frames(network: nn.Module, x: Tensor) -> tuple[int, Tensor]:
    torch._dynamo.reset()
    compilation_time_metrics.clear()
    got = compile_plainly(lambda x: network(x + 1) * 2)(x - 1) / 2
    return len(compilation_time_metrics["_compile.compile_inner"]), got


def compile_plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, backend="eager", dynamic=False)


class Network(nn.Module):
    @uncompiled
    def forward(self, x: Tensor) -> Tensor:
        for number in (1, 1, 2):
            x = run_part(_add, x, number)
        return x


def _add(x: Tensor, number: int) -> Tensor:
    return x + number


@pytest.mark.parametrize(
    "other",
    [torch.zeros(2, 3, dtype=torch.float64), torch.zeros(3, 2).T, torch.zeros(2, 3, requires_grad=True)],
    ids=["type", "layout", "gradient"],
)
def test_code_for_other_tensors_is_another_kind(tmp_path: Path, other: Tensor) -> None:
    compiled: list[Tensor] = []

    def note(_: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, number: compiled.append(x) or x + number

    for x, is_new in ((torch.zeros(2, 3), True), (other, True), (torch.ones(2, 3), False)):
        compiled.clear()
        with compiling(CompileShare(claims=tmp_path, compile=note)):
            run_part(_add, x, 1)
        assert bool(compiled) is is_new


def test_the_claims_of_a_process_that_fails_or_dies_are_free_again(tmp_path: Path) -> None:
    """A helper without memory must not keep the others from its parts."""
    compiled: list[str] = []

    def share_of(name: str) -> CompileShare:
        return CompileShare(claims=tmp_path, compile=lambda function: compiled.append(name) or function)

    def run(name: str, number: int, *, fails: bool = False) -> None:
        with compiling(share_of(name)):
            run_part(_add, torch.zeros(2), number)
            if fails:
                raise MemoryError

    with pytest.raises(MemoryError):
        run("failing", 1, fails=True)
    run("next", 1)
    run("last", 1)
    assert compiled == ["failing", "next"]
    holds_claim = """
import sys, time, torch
from pathlib import Path
from trainmark.workloads.torch_parts import CompileShare, compiling, run_part
def _add(x, number):
    return x + number
_add.__module__ = sys.argv[2]
with compiling(CompileShare(claims=Path(sys.argv[1]), compile=lambda function: function)):
    run_part(_add, torch.zeros(2), 2)
    print("claimed", flush=True)
    time.sleep(600)
"""
    argv = [sys.executable, "-c", holds_claim, str(tmp_path), _add.__module__]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        run("meanwhile", 2)
        process.kill()
    assert said == "claimed\n"
    run("after", 2)
    assert compiled == ["failing", "next", "after"]


def test_parts_of_hrnet_return_the_same_compiled_or_not(tmp_path: Path) -> None:
    """On a GPU autocast resizes in float32, the compiler does not. What one part returns, the next is compiled for."""
    network: Any = FastNetwork(19, {"sum_norms", "block_stem", "padded_channels", "gathering_resize"})
    network.stage1 = network.stage1[:1]
    for stage in (network.stage2, network.stage3, network.stage4):
        del stage[1:]
        stage[0].branches = nn.ModuleList(branch[:1] for branch in stage[0].branches)
    seen: list[str] = []

    def compare(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            seen.append(function.__name__)
            with enable_python_dispatcher():  # as the compiler traces
                traced = function(*args)
            plain = function(*args)
            assert facts(plain) == facts(traced), function.__name__
            return plain

        return run

    with FakeTensorMode(allow_non_fake_inputs=True), gpu_autocast():
        put_on_gpu(network)
        with compiling(CompileShare(claims=tmp_path, compile=compare)):
            network(torch.empty(2, 3, 64, 128, device="cuda"))
    assert {"_convolve_all", "_run_bottleneck", "_run_block", "_gather", "_classify"} <= set(seen)


def facts(result: Any) -> list[Any]:
    return [(x.shape, x.stride(), x.dtype, x.requires_grad) for x in _pytree.tree_leaves(result)]


def put_on_gpu(network: nn.Module) -> None:
    """As tensors without contents, which need no GPU."""
    for module in network.modules():
        for own in (module._parameters, module._buffers):
            for name, x in own.items():
                if x is not None:
                    twin = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda")
                    own[name] = nn.Parameter(twin) if own is module._parameters else twin


@contextmanager
def gpu_autocast() -> Iterator[None]:
    """`torch.autocast` would refuse on a machine without a GPU."""
    before = torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    try:
        yield
    finally:
        torch.clear_autocast_cache()
        torch.set_autocast_dtype("cuda", before)
        torch.set_autocast_enabled("cuda", False)
