"""What would BatchNorm's sums in the kernel of a 1x1 convolution be worth? For the convolutions of ResNet-50 on a GPU.

`fast` reads the output of every convolution once more for the two sums of BatchNorm. Here a Triton kernel multiplies
and adds up what it writes, so that this pass is saved. Each shape is timed both ways and the results are compared; the
table ends with what all of them would save in a step. Only the forward pass: the gradient needs no other kernel.

    python benchmarks/pointwise_sums.py                       # batch 128 on a GPU, half a minute
    TRITON_INTERPRET=1 python benchmarks/pointwise_sums.py --check-only    # small, on a CPU
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

TILES = ((128, 64, 4, 3), (128, 128, 4, 3), (128, 128, 8, 3), (128, 256, 8, 3), (256, 64, 8, 3), (256, 128, 8, 3))
"""Rows and columns of the output, warps and stages."""
_DEPTH = 64
"""Input channels at a time; all of ResNet-50's are multiples."""
_MAX_ERROR = 0.01
"""Relative to float64, in bf16; in fp16, which the small check uses, a tenth of it."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    side: int
    inputs: int
    outputs: int
    count: int
    """In the network, without those of stride 2."""


SHAPES = (
    Shape(side=56, inputs=64, outputs=64, count=1),
    Shape(side=56, inputs=64, outputs=256, count=4),
    Shape(side=56, inputs=256, outputs=64, count=2),
    Shape(side=56, inputs=256, outputs=128, count=1),
    Shape(side=28, inputs=128, outputs=512, count=4),
    Shape(side=28, inputs=512, outputs=128, count=3),
    Shape(side=28, inputs=512, outputs=256, count=1),
    Shape(side=14, inputs=256, outputs=1024, count=6),
    Shape(side=14, inputs=1024, outputs=256, count=5),
    Shape(side=14, inputs=1024, outputs=512, count=1),
    Shape(side=7, inputs=512, outputs=2048, count=3),
    Shape(side=7, inputs=2048, outputs=512, count=2),
)


@triton.jit
def _multiply_and_sum(
    x, weight, y, sums, num_rows, inputs, outputs,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """y = x weight^T, and for each tile of rows the sums of y and of its squares, by column.

    Neighbouring programs share their rows of x, which are then in the cache.
    """
    num_columns = tl.cdiv(outputs, COLUMNS)
    tile, part = tl.program_id(0) // num_columns, tl.program_id(0) % num_columns
    row = tile.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = part * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    is_row, is_column = row < num_rows, column < outputs
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for begin in range(0, inputs, DEPTH):
        left = tl.load(x + row[:, None] * inputs + (begin + depth)[None, :], mask=is_row[:, None], other=0.0)
        right = tl.load(
            weight + column[None, :] * inputs + (begin + depth)[:, None], mask=is_column[None, :], other=0.0
        )
        total = tl.dot(left, right, total)
    rounded = total.to(y.dtype.element_ty)
    tl.store(y + row[:, None] * outputs + column[None, :], rounded, mask=is_row[:, None] & is_column[None, :])
    wide = rounded.to(tl.float32)  # BatchNorm is of what was written; rows outside are zero
    own = sums + tile * 2 * outputs + column
    tl.store(own, tl.sum(wide, axis=0), mask=is_column)
    tl.store(own + outputs, tl.sum(wide * wide, axis=0), mask=is_column)


def fused(x: Tensor, weight: Tensor, tile: tuple[int, int, int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Of channels_last x, as `separate`."""
    rows, columns, warps, stages = tile
    batch, inputs, height, width = x.shape
    outputs, num_rows = weight.shape[0], batch * height * width
    y = torch.empty((batch, outputs, height, width), dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    num_tiles = triton.cdiv(num_rows, rows)
    sums = torch.empty((num_tiles, 2, outputs), dtype=torch.float32, device=x.device)
    grid = (num_tiles * triton.cdiv(outputs, columns),)
    _multiply_and_sum[grid](
        x, weight, y, sums, num_rows, inputs, outputs, ROWS=rows, COLUMNS=columns, DEPTH=_DEPTH,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    mean, square = sums.sum(0) / num_rows
    return y, mean, square


def separate(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The output, and the means of it and of its squares over everything but the channels."""
    y = functional.conv2d(x, weight)
    wide = y.float()
    return y, wide.mean((0, 2, 3)), (wide * wide).mean((0, 2, 3))


def make(shape: Shape, batch_size: int, device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator(device).manual_seed(0)
    size = (batch_size, shape.inputs, shape.side, shape.side)
    x = torch.randn(size, generator=generator, device=device).relu().to(dtype).to(memory_format=torch.channels_last)
    weight = torch.randn((shape.outputs, shape.inputs, 1, 1), generator=generator, device=device) / shape.inputs**0.5
    return x, weight.to(dtype)


def check(x: Tensor, weight: Tensor, tile: tuple[int, int, int, int]) -> float:
    """The largest relative error of the three results, against float64."""
    right = separate(x.double(), weight.double())
    return max(
        float((own.double() - true).norm() / true.norm())
        for own, true in zip(fused(x, weight, tile), right, strict=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument(
        "--check-only", action="store_true", help="small shapes, no times; also with Triton's interpreter"
    )
    args = parser.parse_args()
    if args.check_only:
        errors = list(_check_small())
        print(f"largest relative error of {len(errors)} cases: {max(errors):.1e}")
        return int(max(errors) > _MAX_ERROR / 10)
    torch.backends.cudnn.benchmark = True
    saved = 0.0
    print(
        "| side | channels | count | error | separate, us | convolution alone | fused | best tile | saved a step, us |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    largest = 0.0
    for shape in SHAPES:
        x, weight = make(shape, args.batch_size, "cuda", torch.bfloat16)
        torch.compiler.reset()  # after eight shapes of one function it would not be compiled any more
        today = torch.compile(separate, dynamic=False)
        alone = _time(partial(functional.conv2d, x, weight))
        before = _time(partial(today, x, weight))
        times = {tile: _time(partial(fused, x, weight, tile)) for tile in TILES}
        best = min(times, key=lambda tile: times[tile])
        error = check(x, weight, best)
        largest = max(largest, error)
        own = max(0.0, before - times[best]) * shape.count
        saved += own
        cells = (f"{error:.1e}", f"{before:.1f}", f"{alone:.1f}", f"{times[best]:.1f}", best, f"{own:.0f}")
        print(
            f"| {shape.side} | {shape.inputs} to {shape.outputs} | {shape.count} | {' | '.join(map(str, cells))} |",
            flush=True,
        )
    print(f"\nall together: {saved / 1000:.2f} ms a step")
    return int(largest > _MAX_ERROR)


def _check_small() -> Iterator[float]:
    for shape in (Shape(side=5, inputs=64, outputs=64, count=1), Shape(side=4, inputs=128, outputs=192, count=1)):
        device = "cuda" if torch.cuda.is_available() else "cpu"
        x, weight = make(shape, 9, device, torch.float16)
        for tile in TILES[:1] + TILES[3:4]:
            yield check(x, weight, tile)


def _time(work: Callable[[], object]) -> float:
    """Microseconds, the median; as a graph, so that launches of small kernels do not count."""
    return float(triton.testing.do_bench_cudagraph(work, rep=20, return_mode="median")) * 1000


if __name__ == "__main__":
    sys.exit(main())
