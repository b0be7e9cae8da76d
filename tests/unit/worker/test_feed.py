"""Feeding without a framework: what a new engine gets for free, with numpy arrays in place of tensors."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from making import make_images
from trainmark.worker.feed import DataFeed, build_feed, open_feed
from trainmark.worker.images import ImageDecoder, ImageList
from trainmark.worker.jpeg_source import JpegSource
from trainmark.worker.samples import EvalBatches, HostBatches, Problems, Share, TrainBatches
from trainmark.workloads.data import JpegFolder, Sample, Samples, UnusableSampleError, shuffled
from trainmark.workloads.registry import load_card


class NumpyImages:
    def __init__(self, image_size: int, problems: Problems) -> None:
        self._decoder = ImageDecoder(image_size, problems)

    def prepare(self, images: ImageList, labels: NDArray[np.int64]) -> Any:
        return self._decoder.decode(images), labels

    def close(self) -> None:
        self._decoder.close()


class NumpySamples:
    num_ahead = 0

    def __init__(self, data: Samples, share: Share, problems: Problems) -> None:
        self._data, self._share, self._problems = data, share, problems

    def training(self, *, epoch: int, step: int) -> Generator[Any, None, None]:
        return self._read(TrainBatches(self._data, self._share, epoch=epoch, step=step))

    def evaluation(self) -> Generator[Any, None, None]:
        return self._read(EvalBatches(self._data, self._share))

    def close(self) -> None:
        pass

    def _read(self, batches: HostBatches) -> Generator[Any, None, None]:
        for arrays, problems in batches.of_loader(0, 1):
            self._problems.note(problems)
            yield arrays


class NumpySources:
    """All that a framework has to write about data."""

    def make_synthetic(self, share: Share, *, num_classes: int) -> Any:
        return np.zeros(num_classes)

    def open_samples(self, data: Samples, share: Share, problems: Problems) -> NumpySamples:
        return NumpySamples(data, share, problems)

    def open_jpegs(self, data: JpegFolder, share: Share, problems: Problems) -> JpegSource[Any]:
        images = NumpyImages(data.image_size, problems)
        return JpegSource(data, share, images, num_loaders=1, num_ahead=2)


class Numbers:
    """Sample n is the number n; those from `first_bad` on cannot be used."""

    num_train, num_val, num_classes, truth = 10, 3, 2, None

    def __init__(self, first_bad: int = 10) -> None:
        self._first_bad = first_bad

    def order(self, *, seed: int, epoch: int, global_batch: int) -> Any:
        return shuffled(self.num_train, seed=seed, epoch=epoch, global_batch=global_batch)

    def train_sample(self, index: int, rng: np.random.Generator) -> Sample:
        if index >= self._first_bad:
            raise UnusableSampleError(f"{index}.bin", "is torn")
        return Sample(arrays={"number": np.array(index)})

    def eval_sample(self, index: int) -> Sample:
        return self.train_sample(index, np.random.default_rng(0))

    def collate(self, samples: Any) -> list[int]:
        return [int(sample["number"]) for sample in samples]


def share_of(rank: int = 0, world_size: int = 1, batch_size: int = 4) -> Share:
    return Share(rank=rank, world_size=world_size, batch_size=batch_size, seed=0)


def jpeg_feed(root: str, share: Share) -> Any:
    card = load_card("resnet50")
    return build_feed(root, card=card, size=card.sizes["small"], share=share, sources=NumpySources())


def test_two_ranks_see_the_images_of_one_with_twice_the_batch(tmp_path: Path) -> None:
    root = str(make_images(tmp_path))
    whole = jpeg_feed(root, share_of())
    halves = [jpeg_feed(root, share_of(rank, 2, 2)) for rank in range(2)]
    for feed in (whole, *halves):
        feed.begin_epoch(0)
    for _ in range(whole.steps_per_epoch):
        parts = [feed.next_batch() for feed in halves]
        pixels, labels = whole.next_batch()
        np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), pixels)
        np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), labels)
    for feed in (whole, *halves):
        feed.close()


def test_cached_batches_repeat(tmp_path: Path) -> None:
    feed = jpeg_feed(f"cached:{make_images(tmp_path, per_class=2)}", share_of(batch_size=2))
    first = [feed.next_batch() for _ in range(2)]
    assert feed.next_batch() is first[0]
    assert feed.num_samples == (4, 4)
    assert not feed.can_evaluate


def test_a_resumed_epoch_sees_what_it_would_have_seen() -> None:
    feed = open_feed(Numbers(), share_of(batch_size=2), NumpySources())
    feed.begin_epoch(0)
    seen = [feed.next_batch() for _ in range(2 * feed.steps_per_epoch)]
    feed.begin_epoch(0, step=3)
    assert [feed.next_batch() for _ in range(7)] == seen[3:]
    assert sorted(number for batch in seen[:5] for number in batch) == list(range(10))


def test_evaluation_has_every_sample_once_over_the_ranks() -> None:
    feeds = [open_feed(Numbers(), share_of(rank, 2), NumpySources()) for rank in range(2)]
    assert [list(feed.eval_batches()) for feed in feeds] == [[[0, 2]], [[1]]]


def test_an_unusable_sample_is_replaced_and_named_once() -> None:
    feed = open_feed(Numbers(first_bad=8), share_of(batch_size=5), NumpySources())
    feed.begin_epoch(0)
    batches = [feed.next_batch() for _ in range(4)]
    assert all(len(batch) == 5 and max(batch) < 8 for batch in batches)
    assert len(feed.warnings()) == 2


def test_fewer_samples_than_a_global_batch_are_refused() -> None:
    with pytest.raises(ValueError, match="10 training samples are fewer than one global batch of 16"):
        open_feed(Numbers(), share_of(0, 4), NumpySources())


class Counted(NumpySamples):
    """Remembers where its streams began and how many batches each has given."""

    def __init__(self, data: Samples, share: Share, problems: Problems) -> None:
        super().__init__(data, share, problems)
        self.begun: list[tuple[int, int]] = []
        self.closed = 0

    def training(self, *, epoch: int, step: int) -> Generator[Any, None, None]:
        self.begun.append((epoch, step))
        try:
            yield from super().training(epoch=epoch, step=step)
        finally:
            self.closed += 1


def test_what_was_prepared_during_a_checkpoint_is_not_used() -> None:
    """The stream is opened again at the same place; the batches are those of an uninterrupted training."""
    share = Share(rank=0, world_size=1, batch_size=2, seed=0)
    plain, paused = (
        DataFeed(data, Counted(data, share, Problems()), Problems(), steps_per_epoch=5)
        for data in (Numbers(), Numbers())
    )
    source = paused._source
    assert isinstance(source, Counted)
    for feed in (plain, paused):
        feed.begin_epoch(0)
    wanted, got = [], []
    for number in range(8):
        wanted.append(plain.next_batch())
        got.append(paused.next_batch())
        if number in (2, 4):
            paused.restart()
    np.testing.assert_array_equal(np.array(got), np.array(wanted))
    assert source.begun == [(0, 0), (0, 3), (1, 0)]
    assert source.closed == 2
    paused.restart()
    paused.begin_epoch(0)
    np.testing.assert_array_equal(paused.next_batch(), wanted[0], "a jump forgets the batch that was waited for")
