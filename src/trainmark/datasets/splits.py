"""How many samples of a made data set are for training and how many for validation."""

from __future__ import annotations

from trainmark.errors import DataError
from trainmark.units import format_count

SPLITS = ("train", "val")
"""The position is the split's number in every sample's seed."""


def split_sizes(
    number: int, val_fraction: float, *, num_classes: int | None = None, what: str = "images"
) -> tuple[int, int]:
    """Each split has one of every class, or is empty because no validation part was asked for."""
    if not 0 <= val_fraction < 1:
        raise DataError(f"a validation part of {val_fraction} cannot be made", hint="give 0 (none) or more, below 1")
    num_val = round(number * val_fraction)
    sizes = (number - num_val, num_val)
    for split, size in zip(SPLITS, sizes, strict=True):
        if size < (num_classes or 1) and (split == "train" or val_fraction > 0):
            classes = f" for {format_count(num_classes, 'classes')}" if num_classes else ""
            raise DataError(
                f"{format_count(number, what)} {'is' if number == 1 else 'are'} too few{classes}",
                why=f"{split} would get {max(size, 0)}" + (" and have empty classes" if num_classes else ""),
                hint=f"ask for more {what}{', for fewer classes' if num_classes else ''} or for no validation part",
            )
    return sizes
