"""The PyTorch engine on the CPU: every precision, the fast recipe against the reference, data without surprises."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from making import make_images, make_workload_cell
from trainmark.worker.checkpoint import CheckpointRefusedError
from trainmark.worker.feed import build_feed, repeat_first_batches
from trainmark.worker.samples import Share
from trainmark.worker.torch import is_out_of_memory
from trainmark.worker.torch.engine import TorchEngine
from trainmark.worker.torch.sources import TorchSources
from trainmark.workloads.registry import load_card, load_module


def build(**changes: Any) -> TorchEngine:
    return TorchEngine(make_workload_cell(**{"batch_size_per_device": 4, **changes}))


def losses_of(engine: TorchEngine, num_steps: int) -> list[float]:
    losses = []
    engine.begin_epoch(0)
    for _ in range(num_steps):
        engine.step()
        losses.append(engine.read_loss(engine.queue_loss()))
    engine.close()
    return losses


@pytest.mark.parametrize("precision", ["fp32", "amp", "bf16"])
def test_every_precision_steps_the_optimizer_exactly_once(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = build(precision=precision)
    monkeypatch.setattr(engine, "learning_rate", lambda _: 1e-4)  # the first rates of the warm-up vanish in rounding
    if precision == "amp":  # a scale that does not overflow: a step that is skipped is another test
        engine._train_step._scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    optimizer = engine._train_step.optimizer
    calls = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    weights = [p for p in engine.model.parameters() if p.ndim > 1]
    before = [p.detach().clone() for p in weights]
    for number in range(1, 4):
        engine.step()
        assert len(calls) == number
    changed = sum(not torch.equal(a, b) for a, b in zip(before, weights, strict=True))
    assert changed == len(before)
    assert np.isfinite(engine.read_loss(engine.queue_loss()))
    engine.close()


def test_an_overflow_in_the_first_step_is_skipped_not_spread() -> None:
    engine = build(precision="amp")
    engine._train_step._scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    losses = losses_of(engine, 4)
    assert np.isfinite(losses).all()
    assert all(torch.isfinite(p).all() for p in engine.model.parameters())


def test_fast_equals_reference_over_20_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled, channels_last and fused, as on a GPU: the same losses in fp32, from the first step on."""
    reference = losses_of(build(recipe="reference", batch_size_per_device=4), 20)
    of_gpu = frozenset({"channels_last", "compile", "fused_optimizer", "shared_blocks"})
    monkeypatch.setattr("trainmark.worker.torch.engine.optimisations_of", lambda *_, **__: of_gpu)
    monkeypatch.setattr("trainmark.workloads.resnet50.torch.network_optimisations", lambda *_, **__: of_gpu)
    fast = losses_of(build(recipe="fast", batch_size_per_device=4), 20)
    np.testing.assert_allclose(fast, reference, rtol=2e-3)
    assert reference[-1] < reference[0]  # it learns its one batch: equal losses that stand still would prove little


def test_facts_say_what_was_switched_on() -> None:
    engine = build()
    facts = engine.facts()
    assert facts["num_parameters"] == 25_557_032
    assert facts["flags"]["tf32_matmul"] is False
    assert facts["flags"]["layout"] == "contiguous"
    engine.close()


def test_learning_rate_scales_with_the_global_batch_and_is_set() -> None:
    engine = build(batch_size_per_device=4)
    engine.step()
    expected = engine.learning_rate(0)
    assert 0 < expected < 0.256 * 4 / 256
    assert {group["lr"] for group in engine._train_step.optimizer.param_groups} == {expected}
    engine.close()


def test_memory_errors_are_told_from_others() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"))
    assert is_out_of_memory(RuntimeError("FIND was unable to find an engine to execute this computation"))
    assert not is_out_of_memory(RuntimeError("shape mismatch"))


def test_one_dnn_s_words_mean_memory_where_it_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("could not create a primitive")
    for limit, expected in ((resource.RLIM_INFINITY, False), (1_600_000_000, True)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, resource.RLIM_INFINITY))
        assert is_out_of_memory(error) is expected
        assert not is_out_of_memory(RuntimeError("shape mismatch"))


def test_a_training_that_goes_on_removes_what_a_killed_one_left_half_written(tmp_path: Path) -> None:
    engine = build()
    path = tmp_path / "checkpoint"
    engine.save(path, {"num_steps": 3})
    (tmp_path / ".checkpoint.4711").write_bytes(b"half of it")
    assert engine.restore(path) == {"num_steps": 3}
    assert list(tmp_path.iterdir()) == [path]
    engine.close()


# -- data --------------------------------------------------------------------------------------------------------------


def feed_of(root: Path, *, rank: int = 0, world_size: int = 1, batch_size: int = 2) -> Any:
    card = load_card("resnet50")
    size, share = card.sizes["small"], Share(rank=rank, world_size=world_size, batch_size=batch_size, seed=0)
    sources = TorchSources(
        workload=load_module("resnet50", "torch"), size=size, device=torch.device("cpu"),
        input_dtype=torch.float32, channels_last=False,
    )  # fmt: skip
    return build_feed(str(root), card=card, size=size, share=share, sources=sources)


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("ran"),)


def test_a_checkpoint_that_is_not_ours_is_refused_in_our_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch advises to load a hostile file with weights_only=False."""
    monkeypatch.chdir(tmp_path)
    engine = build()
    before = [p.detach().clone() for p in engine.model.parameters()]
    engine.save(tmp_path / "good", {"num_steps": 1.0})
    torch.save({"model": Hostile()}, tmp_path / "hostile")
    torch.save({"model": engine.model.state_dict()}, tmp_path / "other")
    (tmp_path / "cut").write_bytes((tmp_path / "good").read_bytes()[:5000])
    (tmp_path / "text").write_text("not a checkpoint")
    reasons = {}
    for name in ("hostile", "other", "cut", "text"):
        with pytest.raises(CheckpointRefusedError) as caught:
            engine.restore(tmp_path / name)
        reasons[name] = str(caught.value)
    hostile = "trainmark writes only tensors and plain values; run without --resume to start over"
    assert reasons["hostile"].endswith(hostile)
    assert "not a trainmark checkpoint" in reasons["other"]
    assert "damaged" in reasons["cut"]
    assert not any("weights_only" in reason for reason in reasons.values())
    assert not (tmp_path / "ran").exists()
    assert all(torch.equal(a, b) for a, b in zip(before, engine.model.parameters(), strict=True))
    assert engine.restore(tmp_path / "good")["num_steps"] == 1
    engine.close()


def test_two_ranks_see_what_one_with_the_double_batch_sees(tmp_path: Path) -> None:
    root = make_images(tmp_path)
    whole = feed_of(root, batch_size=4)
    parts = [feed_of(root, rank=rank, world_size=2, batch_size=2) for rank in range(2)]
    for feed in (whole, *parts):
        feed.begin_epoch(1)
    for _ in range(2 * whole.steps_per_epoch):
        inputs, targets = whole.next_batch()
        halves = [part.next_batch() for part in parts]
        torch.testing.assert_close(torch.cat([half[0] for half in halves]), inputs)
        assert torch.equal(torch.cat([half[1] for half in halves]), targets)
    for feed in (whole, *parts):
        feed.close()


def test_an_epoch_shows_every_image_once(tmp_path: Path) -> None:
    feed = feed_of(make_images(tmp_path, classes=4, per_class=3))
    feed.begin_epoch(0)
    labels = torch.cat([feed.next_batch()[1] for _ in range(feed.steps_per_epoch)])
    assert sorted(labels.tolist()) == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert len(torch.cat([targets for _, targets in feed.eval_batches()])) == 12
    feed.close()


def test_validation_is_counted_once_over_ranks(tmp_path: Path) -> None:
    root = make_images(tmp_path, classes=3, per_class=3)
    counts = []
    for rank in range(2):
        feed = feed_of(root, rank=rank, world_size=2, batch_size=4)
        counts.append(sum(len(targets) for _, targets in feed.eval_batches()))
        feed.close()
    assert counts == [5, 4]


def test_a_bad_image_is_named_and_the_batch_stays_whole(tmp_path: Path) -> None:
    root = make_images(tmp_path)
    victim = root / "train" / "class0" / "1.jpg"
    victim.write_bytes(victim.read_bytes()[:400])
    (root / "train" / "class1" / "2.jpg").write_bytes(b"not a picture")
    huge = bytearray((root / "train" / "class1" / "3.jpg").read_bytes())
    at = huge.index(b"\xff\xc0")
    huge[at + 5 : at + 9] = b"\xff\xff\xff\xff"  # claims 65535 x 65535
    (root / "train" / "class1" / "3.jpg").write_bytes(huge)
    feed = feed_of(root)
    feed.begin_epoch(0)
    for _ in range(feed.steps_per_epoch):
        inputs, _ = feed.next_batch()
        assert inputs.shape == (2, 3, 64, 64)
        assert torch.isfinite(inputs).all()
    named = {warning.params["path"] for warning in feed.warnings() if warning.code == "bad-sample"}
    assert named == {"train/class0/1.jpg", "train/class1/2.jpg", "train/class1/3.jpg"}
    assert feed.warnings() == []
    feed.close()


def test_cached_batches_come_again(tmp_path: Path) -> None:
    cached = repeat_first_batches(feed_of(make_images(tmp_path, per_class=2)))
    first = [cached.next_batch()[0] for _ in range(2)]
    assert cached.next_batch()[0] is first[0]
