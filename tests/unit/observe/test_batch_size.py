"""Samples and tokens of batches, as frameworks structure them."""

from __future__ import annotations

from typing import Any

import pytest

from trainmark.observe.batch_size import measure


class Tensor:
    def __init__(self, *shape: int, dtype: str = "torch.float32") -> None:
        self.shape, self.dtype = shape, dtype


def text(*shape: int) -> Tensor:
    return Tensor(*shape, dtype="torch.int64")


class Encoding:
    """As transformers has them: behaves like a dictionary but is none."""

    def __init__(self, **data: Any) -> None:
        self.data = data

    def keys(self) -> Any:
        return self.data.keys()


IMAGES, LABELS = Tensor(32, 3, 224, 224), text(32)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ([IMAGES, LABELS], (32, None, False)),
        ((LABELS, IMAGES), (32, None, False)),
        ({"image": IMAGES, "label": LABELS}, (32, None, False)),
        ([{"image": IMAGES}], (32, None, False)),
        ([[IMAGES, IMAGES], LABELS], (32, None, False)),
        ([Tensor(), IMAGES], (32, None, False)),
        ([text(12, 64), text(12, 64)], (12, 768, True)),
        ({"input_ids": text(8, 128), "attention_mask": text(8, 128), "labels": text(8, 128)}, (8, 1024, True)),
        ({"input_ids": text(8, 128), "attention_mask": text(8, 128)}, (8, 1024, False)),
        (Encoding(input_ids=text(8, 128), labels=text(8)), (8, 1024, False)),
        (((Tensor(3, 20, 30), Tensor(3, 40, 50)), ({"boxes": Tensor(2, 4)},) * 2), (2, None, False)),
        ([[{"image": Tensor(3, 20, 30)}, {"image": Tensor(3, 40, 50)}, {}]], (3, None, False)),
        ("text", (None, None, False)),
        ([1, 2.5, None, "x", object()], (None, None, False)),
    ],
)
def test_what_a_batch_has(batch: Any, expected: tuple[int | None, int | None, bool]) -> None:
    assert measure(batch) == expected


def test_a_structure_that_never_ends_is_left() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert measure(endless) == (None, None, False)
