from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from making import make_cell, make_machine
from trainmark.controller.workload import read_catalog
from trainmark.errors import InputError
from trainmark.frameworks import required_extra
from trainmark.gpus import Gpu, visible_gpus
from trainmark.plan.estimate import Duration, PastRun, estimate, total
from trainmark.plan.expand import expand
from trainmark.plan.feasible import Reach, require, why_not
from trainmark.plan.identity import cell_id, new_run_id
from trainmark.plan.machine import read_machine
from trainmark.spec.cell import Cell, DataSource
from trainmark.spec.suite import Measure, Suite, Sweep
from trainmark.worker.telemetry.sensors import physical_gpu


def test_repeats_are_interleaved() -> None:
    suite = Suite(name="s", sweeps=(Sweep(workload="resnet50", precision=("fp32", "amp"), repeat=2),))
    cells = expand(suite, catalog=read_catalog(), device="cuda")
    assert [(cell.precision, cell.repeat) for cell in cells] == [("fp32", 1), ("amp", 1), ("fp32", 2), ("amp", 2)]


def test_the_same_cell_twice_is_run_once() -> None:
    sweep = Sweep(workload="resnet50")
    assert len(expand(Suite(name="s", sweeps=(sweep, sweep)), catalog=read_catalog(), device="cpu")) == 1


def test_batch_size_defaults_to_the_cards() -> None:
    cells = expand(Suite(name="s", sweeps=(Sweep(workload="resnet50"),)), catalog=read_catalog(), device="cpu")
    assert cells[0].batch_size_per_device == 128


def test_the_default_framework_is_one_that_is_installed() -> None:
    offer = replace(read_catalog()["resnet50"], frameworks=("torch", "paddle"))
    suite = Suite(name="s", sweeps=(Sweep(workload="resnet50"),))

    def framework(*installed: str) -> str:
        return expand(suite, catalog={"resnet50": offer}, device="cpu", installed=installed)[0].framework

    assert framework("jax", "paddle") == "paddle"
    assert framework("paddle", "torch") == "torch", "the order of the card decides"
    assert framework() == "torch", "elsewhere it may be installed"


def test_identity_is_content() -> None:
    assert cell_id(make_cell()) == cell_id(make_cell(repeat=5))
    others = [make_cell(seed=1), make_cell(precision="bf16"), make_cell(batch_size_per_device=5), make_cell(epochs=1)]
    assert len({cell_id(cell) for cell in [make_cell(), *others]}) == 5
    assert new_run_id(make_cell()) != new_run_id(make_cell())


def test_why_a_cell_cannot_run_here() -> None:
    assert why_not(make_cell(), make_machine(), Reach()) is None
    assert "3 devices requested, 2 CPU cores available" in str(
        why_not(make_cell(devices_per_node=3), make_machine(), Reach())
    )
    cuda = make_cell(device="cuda", devices_per_node=8)
    assert "8 devices requested, 1 GPU available; use --devices 1 or fewer" in str(
        why_not(cuda, make_machine(1), Reach())
    )
    assert "no NVIDIA GPU" in str(why_not(make_cell(device="cuda"), make_machine(), Reach()))
    assert f"pip install {required_extra('torch')}" in str(why_not(make_cell(), make_machine(frameworks=()), Reach()))
    assert "tf32" in str(why_not(make_cell(precision="tf32"), make_machine(), Reach()))
    assert "give --hosts" in str(why_not(make_cell(nodes=2), make_machine(), Reach()))
    assert why_not(make_cell(nodes=2), make_machine(), Reach(num_nodes=2)) is None
    assert "3 nodes requested, 2 machines" in str(why_not(make_cell(nodes=3), make_machine(), Reach(num_nodes=2)))
    assert why_not(make_cell(nodes=9, device="cuda"), make_machine(), Reach(num_nodes=None, is_elsewhere=True)) is None
    assert "3 nodes" in str(why_not(make_cell(nodes=3), make_machine(), Reach(num_nodes=2, is_elsewhere=True)))
    assert why_not(make_cell(device="cuda", precision="tf32"), make_machine(1), Reach()) is None


def past_run(cell: Cell, **facts: Any) -> PastRun:
    own = {name: getattr(cell, name) for name in ("workload", "framework", "recipe", "size", "device")}
    took = {"wall_s": 100.0, "setup_s": 10.0, "steps_s": 80.0, "num_steps": 800}
    batch = {"devices": cell.num_devices, "batch_size_per_device": cell.batch_size_per_device}
    return PastRun(cell_id=cell_id(cell), **{**own, **batch, **took, **facts})


def bounds(duration: Duration | None) -> tuple[float, float]:
    assert duration is not None
    return duration.low_s, duration.high_s


def test_time_is_a_range_from_what_must_and_what_may_be_measured() -> None:
    first = estimate(make_cell(), Measure(max_seconds=40), [])
    assert bounds(first) == pytest.approx((6 + 20 + 0.3, 20 + 40 + 3))
    assert first is not None
    assert not first.is_learned


def test_fast_compiles_only_on_a_gpu() -> None:
    measure = Measure(max_seconds=40)
    on_cpu, on_gpu = (estimate(make_cell(recipe="fast", device=device), measure, []) for device in ("cpu", "cuda"))
    assert on_cpu == estimate(make_cell(), measure, [])
    assert bounds(on_gpu)[0] > 30


def test_time_is_learned_from_the_runs_most_like_it() -> None:
    cell, other = make_cell(), make_cell(batch_size_per_device=2 * make_cell().batch_size_per_device)
    short, long = past_run(cell, setup_s=13.0, wall_s=106.0), past_run(other, setup_s=130.0)
    learned = estimate(cell, Measure(max_seconds=40), [short, long])
    assert bounds(learned) == pytest.approx((10 + 20 + 10, 13 * 1.3 + 40 + 13 * 1.3)), "the same cell before others"
    assert learned is not None
    assert learned.is_learned
    third = make_cell(batch_size_per_device=1)
    assert bounds(estimate(third, Measure(max_seconds=40), [short, long]))[1] > 130, "then those with another batch"
    several = make_cell(devices_per_node=2)
    assert not estimate(several, Measure(), [short, long]).is_learned, "processes that must meet are another matter"


def test_short_steps_end_a_measurement_early() -> None:
    cell = make_cell()
    quick = past_run(cell, setup_s=1.3, wall_s=1.3 + 13 + 1.3, steps_s=13.0, num_steps=3000)
    low_s, high_s = bounds(estimate(cell, Measure(max_seconds=120), [quick]))
    assert low_s == pytest.approx(1 + 10 + 1), "3,000 steps"
    assert high_s > 120
    assert bounds(estimate(cell, Measure(max_steps=30), [quick]))[1] < 10


def test_a_total_is_unknown_where_a_part_is() -> None:
    one = Duration(low_s=1.0, high_s=2.0, is_learned=True)
    assert bounds(total([one, one])) == (2.0, 4.0)
    assert total([one, None]) is None


def test_a_training_has_no_limit_unless_told() -> None:
    """Half an hour, meant for measurements, once ended every longer training."""
    training = make_cell(epochs=50, data=DataSource.parse("shapes"))
    assert (Measure().limit_s(is_training=True), Measure(timeout_s=60).limit_s(is_training=True)) == (None, 60)
    assert (Measure(max_seconds=40).limit_s(is_training=False), Measure(timeout_s=60).limit_s(is_training=False)) == (
        1840.0,
        60,
    )
    assert estimate(training, Measure(), []) is None
    assert bounds(estimate(training, Measure(timeout_s=60), [])) == (0, 60)
    low_s, high_s = bounds(estimate(training, Measure(), [past_run(training, wall_s=7200.0)]))
    assert low_s < 7200 < high_s < 2 * low_s


@pytest.mark.parametrize(
    ("visible", "count"), [(None, 4), ("", 0), ("-1", 0), ("0,2", 2), ("0,-1,1", 1), ("9", 0), ("GPU-abc,GPU-def", 2)]
)
def test_visible_devices_are_read_as_cuda_reads_them(visible: str | None, count: int) -> None:
    assert len(visible_gpus((Gpu(name="g", memory_bytes=1),) * 4, visible)) == count


def test_visible_devices_keep_their_ids() -> None:
    """A beginning of an id is enough; a part of a GPU has an id of its own."""
    gpus = tuple(Gpu(name="g", memory_bytes=1, uuid=f"GPU-{letter}1") for letter in "ab")
    assert [gpu.uuid for gpu in visible_gpus(gpus, "1,GPU-a,MIG-7")] == ["GPU-b1", "GPU-a1", "MIG-7"]
    assert visible_gpus((), "GPU-a") == ()


def test_telemetry_looks_at_the_gpu_that_trains() -> None:
    assert physical_gpu(1, None) == 1
    assert physical_gpu(1, "3,5") == 5
    assert physical_gpu(0, "GPU-abc") == "GPU-abc"


def test_this_machine_can_be_read() -> None:
    here = read_machine()
    assert here.num_cores >= 1
    assert here.memory_bytes > 1 << 28
    assert here.best_device in ("cpu", "cuda")


def test_what_a_framework_lacks_is_refused_with_the_way_out() -> None:
    def refusal(device: str = "cpu", **changes: Any) -> str:
        cell = make_cell(**{"framework": "paddle", "device": device, **changes})
        return str(why_not(cell, make_machine(1, frameworks=("torch", "paddle")), Reach(), read_catalog()["resnet50"]))

    assert refusal(precision="fp32") == "None"
    for precision in ("amp", "bf16", "fp16"):
        assert f"in {precision} on a GPU only, its CPU kernels lack it; use --precision fp32" in refusal(
            precision=precision
        )
        assert refusal(device="cuda", precision=precision) == "None"
    assert "torch does not train in fp16" in refusal(framework="torch", precision="fp16", device="cuda")
    assert "to_static was slower" in refusal(recipe="fast")
    assert "jax does not train in fp16" in str(
        why_not(make_cell(framework="jax", precision="fp16"), make_machine(1, frameworks=("jax",)), Reach())
    )
    for name in ("paddle", "jax"):
        missing = why_not(make_cell(framework=name), make_machine(frameworks=("torch",)), Reach())
        assert f"pip install {required_extra(name)}" in str(missing)


def test_a_build_for_cpus_is_refused_on_a_gpu_only() -> None:
    here = make_machine(1, frameworks=("torch", "jax"), frameworks_without_gpu=("jax",))
    refused = why_not(make_cell(framework="jax", device="cuda"), here, Reach())
    assert str(refused) == ("the installed jax is built for CPUs only; use --device cpu, or install jax[cuda13]")
    assert why_not(make_cell(framework="jax", device="cpu"), here, Reach()) is None
    assert why_not(make_cell(framework="torch", device="cuda"), here, Reach()) is None
    assert why_not(make_cell(framework="jax", device="cuda"), here, Reach(is_elsewhere=True)) is None


def test_on_a_gpu_the_default_framework_is_one_that_can_use_it() -> None:
    suite = Suite(name="s", sweeps=(Sweep(workload="resnet50"),))

    def framework(device: str, *installed: str) -> str:
        cells = expand(suite, catalog=read_catalog(), device=device, installed=installed, for_cpus=("torch",))
        return cells[0].framework

    assert framework("cuda", "torch", "jax") == "jax"
    assert framework("cpu", "torch", "jax") == "torch"
    assert framework("cuda", "torch") == "torch", "which is skipped with the reason"


def test_what_runs_a_framework_without_a_plan_is_refused_in_the_same_words() -> None:
    require("torch", make_machine(1), device="cuda")
    for machine, device, what, hint in (
        (make_machine(frameworks=()), "cpu", "torch is not installed", f"pip install {required_extra('torch')}"),
        (make_machine(), "cuda", "no NVIDIA GPU is visible here", "use --device cpu, or check nvidia-smi"),
        (make_machine(1, frameworks_without_gpu=("torch",)), "cuda", "built for CPUs only", "use --device cpu, or"),
    ):
        with pytest.raises(InputError, match=what) as error:
            require("torch", machine, device=device)
        assert str(error.value.hint).startswith(hint)
