"""Reads the gzipped IDX files of the MNIST family. Nothing in a file is believed before it is checked."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainmark.errors import DataError

_UNSIGNED_BYTE = 0x08
_MAX_BYTES = 2**30  # MNIST and its relatives stay below 50 MB; a few bytes of gzip can unpack to anything


def read_idx(path: Path, *, num_dimensions: int) -> npt.NDArray[np.uint8]:
    try:
        with gzip.open(path, "rb") as file:
            shape = _parse_header(path, file.read(4 + 4 * num_dimensions), num_dimensions)
            size = math.prod(shape)
            if size > _MAX_BYTES:
                raise _broken(path, f"its header promises {size:,} bytes")
            body = file.read(size + 1)  # one more than promised, to see whether there is more
    except FileNotFoundError:
        raise DataError(
            f"{path} does not exist",
            why="the original files are needed to make this data set",
            hint="apt-get install dataset-fashion-mnist (Debian, Ubuntu), or give the folder of the .gz files",
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _broken(path, str(error)) from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be read", why=error.strerror or str(error), hint="mend its permissions"
        ) from error
    if len(body) != size:
        raise _broken(path, f"it holds {'more' if len(body) > size else 'fewer'} than the {size:,} bytes of its header")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _parse_header(path: Path, header: bytes, num_dimensions: int) -> tuple[int, ...]:
    if header[:4] != bytes((0, 0, _UNSIGNED_BYTE, num_dimensions)):
        raise _broken(path, f"it is no IDX file of bytes in {num_dimensions} dimensions (begins {header[:4].hex(' ')})")
    if len(header) != 4 + 4 * num_dimensions:
        raise _broken(path, "it ends within its header")
    return tuple(int.from_bytes(header[at : at + 4]) for at in range(4, len(header), 4))


def _broken(path: Path, why: str) -> DataError:
    return DataError(f"{path} is damaged or of another kind", why=why, hint="fetch the file again")
