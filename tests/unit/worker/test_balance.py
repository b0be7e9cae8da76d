from __future__ import annotations

from trainmark.worker.engine_torch_gpu_images import Balance


def test_both_sides_end_together() -> None:
    balance = Balance(num_cores=8)
    for _ in range(100):
        balance.note(3000.0, 1000.0)
    assert abs(balance.share() - 0.75) < 0.01


def test_nvjpeg_rests_while_one_core_is_faster_and_is_tried_again() -> None:
    balance = Balance(num_cores=16)
    balance.note(300.0, 6400.0)  # one core: 400
    shares = [balance.share() for _ in range(201)]
    assert shares[:200] == [0.0] * 200
    assert 0 < shares[200] < 0.1
