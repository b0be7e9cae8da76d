"""Small JPEG files and folders to test on; all made here, none stored."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Encode = Callable[..., bytes]
BuildFolder = Callable[[dict[str, list[str]]], Path]


@pytest.fixture(scope="session")
def photo() -> Image.Image:
    """Smooth, so that a decoded copy is close to it, with some noise, so that it is not trivially small."""
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((80, 60))
    noisy = np.asarray(coarse, dtype=np.int16) + rng.integers(-4, 5, (60, 80, 1))
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


@pytest.fixture(scope="session")
def encode(photo: Image.Image) -> Encode:
    def encode_as(mode: str = "RGB", file_format: str = "JPEG", **options: object) -> bytes:
        buffer = io.BytesIO()
        photo.convert(mode).save(buffer, format=file_format, **options)
        return buffer.getvalue()

    return encode_as


@pytest.fixture
def build_folder(tmp_path: Path, encode: Encode) -> BuildFolder:
    """{"train/cat": ["1.jpg"]} becomes a folder with one good image at that place."""
    data = encode(quality=90)

    def build(files: dict[str, list[str]]) -> Path:
        root = tmp_path / "data"
        root.mkdir()
        for folder, names in files.items():
            (root / folder).mkdir(parents=True)
            for name in names:
                (root / folder / name).write_bytes(data)
        return root

    return build
