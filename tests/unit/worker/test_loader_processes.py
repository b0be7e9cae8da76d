"""The loader's processes, which only training on a GPU has: here with a device that only says that it is one."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch import Tensor

from trainmark.parent_death import serve
from trainmark.worker.feed import DataFeed, open_feed
from trainmark.worker.samples import EvalBatches, Share, TrainBatches, load_in_threads
from trainmark.worker.torch.sources import TorchSources
from trainmark.workloads.data import Sample, UnusableSampleError, shuffled
from trainmark.workloads.registry import load_card, load_module
from trainmark.workloads.tsm import data
from waiting import wait_until

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(pin_memory|worker process):UserWarning"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # it forks while it has threads
]


class Clips:
    """Clips of one colour, the number of the sample; every seventh cannot be used."""

    num_train, num_val, num_classes, truth = 24, 7, 2, None

    def order(self, *, seed: int, epoch: int, global_batch: int) -> Any:
        return shuffled(self.num_train, seed=seed, epoch=epoch, global_batch=global_batch)

    def train_sample(self, index: int, rng: np.random.Generator) -> Sample:
        if index % 7 == 6:
            raise UnusableSampleError(f"{index}.mp4", "is torn")
        frames = np.full((8, 4, 4, 3), index, dtype=np.uint8)
        return Sample(arrays={"frames": frames, "label": np.array(rng.integers(2))})

    def eval_sample(self, index: int) -> Sample:
        return self.train_sample(index, np.random.default_rng(0))

    collate = staticmethod(data.Clips.collate)


@pytest.mark.parametrize("num_loaders", [2, 3, 5])
def test_threads_change_neither_batches_nor_their_order(num_loaders: int) -> None:
    """With which Paddle and JAX make samples for a GPU."""
    share = Share(rank=0, world_size=1, batch_size=4, seed=0)
    for batches, count in ((TrainBatches(Clips(), share, epoch=0, step=1), 14), (EvalBatches(Clips(), share), None)):
        found, wanted = (
            [
                ({name: array.tolist() for name, array in arrays.items()}, problems)
                for arrays, problems in itertools.islice(load_in_threads(batches, number), count)
            ]
            for number in (num_loaders, 1)
        )
        assert found == wanted
        assert len(wanted) == (count or 2)


def build(
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_processes: bool,
    clips: Clips = Clips(),  # noqa: B008 - it has no state
) -> DataFeed[Any]:
    monkeypatch.setattr("trainmark.worker.torch.sources.num_sample_loaders", lambda: 2)
    share = Share(rank=0, world_size=1, batch_size=4, seed=0)
    sources = TorchSources(
        workload=load_module("tsm", "torch"), size=load_card("tsm").sizes["small"],
        device=torch.device("cpu"), input_dtype=torch.float32, channels_last=False,
    )  # fmt: skip
    feed: Any = open_feed(clips, share, sources)
    if has_processes:  # the stream for copies would be made above, so there is none
        feed._source._device = SimpleNamespace(type="cuda")
    return feed


def seen(feed: DataFeed[Any]) -> tuple[list[Tensor], list[Tensor], list[str]]:
    trained: list[Tensor] = []
    for epoch in range(2):
        feed.begin_epoch(epoch)
        trained += [batch[name] for batch in (feed.next_batch() for _ in range(6)) for name in ("frames", "labels")]
        evaluated = [batch["frames"] for batch in feed.eval_batches()]
    warnings = sorted(warning.english for warning in feed.warnings())
    feed.close()
    return trained, evaluated, warnings


def test_processes_change_neither_batches_nor_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = seen(build(monkeypatch, has_processes=False))
    together = seen(build(monkeypatch, has_processes=True))
    for expected, got in zip(alone[:2], together[:2], strict=True):
        assert all(torch.equal(one, other) for one, other in zip(expected, got, strict=True))
    assert alone[2] == together[2] != []


def test_a_hole_in_the_data_is_filled_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are sorted by class: what is missing may be hundreds in a row."""

    class Torn(Clips):
        num_train = 400

        def train_sample(self, index: int, rng: np.random.Generator) -> Sample:
            if index < 300:
                raise UnusableSampleError(f"{index}.mp4", "is missing")
            return super().train_sample((index - 300) // 7 * 7, rng)

    feed = build(monkeypatch, has_processes=False, clips=Torn())
    feed.begin_epoch(0)
    seen_samples = {int(index) for _ in range(20) for index in feed.next_batch()["frames"][:, 0, 0, 0, 0]}
    feed.close()
    assert len(seen_samples) > 5, "not one clip in place of them all"


def test_they_end_at_once_with_the_process_that_trains() -> None:
    here = Path(__file__)
    script = f"""
import multiprocessing, sys, time
sys.path[:0] = [{str(here.parent)!r}, {str(here.parents[2])!r}]
import pytest
from {here.stem} import build
feed = build(pytest.MonkeyPatch(), has_processes=True)
feed.begin_epoch(0)
feed.next_batch()
print(*(process.pid for process in multiprocessing.active_children()), flush=True)
time.sleep(60)
"""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        loaders = [int(pid) for pid in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)
    assert len(loaders) == 2
    wait_until(lambda: not any(map(is_running, loaders)), what="no loader outlives the process that trains")


def test_a_request_to_end_leaves_them_to_the_one_that_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes to all processes of a run; the batches until the next edge are still wanted, and then a checkpoint."""
    feed = build(monkeypatch, has_processes=True)
    feed.begin_epoch(0)
    feed.next_batch()
    loaders = multiprocessing.active_children()
    assert len(loaders) == 2
    for loader in loaders:
        assert loader.pid is not None
        os.kill(loader.pid, signal.SIGTERM)
        os.kill(loader.pid, signal.SIGINT)
    for _ in range(20):
        feed.next_batch()
    assert all(loader.is_alive() for loader in loaders)
    feed.close()


def test_decoders_outlive_a_request_to_end_too() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=serve, initargs=(os.getpid(),)) as pool:
        decoder = pool.submit(os.getpid).result()
        os.kill(decoder, signal.SIGTERM)
        time.sleep(0.2)
        assert pool.submit(os.getpid).result() == decoder


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
