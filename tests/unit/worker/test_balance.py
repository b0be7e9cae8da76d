from __future__ import annotations

from trainmark.worker.torch.gpu_images import Balance


def test_both_sides_end_together() -> None:
    balance = Balance()
    for _ in range(100):
        balance.note(3000.0, 1000.0, core_per_s=450.0)
    assert abs(balance.share() - 0.75) < 0.01


def test_nvjpeg_rests_while_one_core_is_faster_and_is_tried_again() -> None:
    """Six batches share the cores, so that one of them sees little of a core's speed."""
    balance = Balance()
    balance.note(300.0, 1100.0, core_per_s=450.0)
    shares = [balance.share() for _ in range(201)]
    assert shares[:200] == [0.0] * 200
    assert 0 < shares[200] < 0.1


def test_nvjpeg_rests_after_it_refused_an_image() -> None:
    balance = Balance()
    balance.rest()
    assert balance.share() == 0.0
