"""The checkpoint file of Paddle and JAX trainings: what is written comes back, and a stranger's file can do nothing."""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainmark.weights.array_archive import read_archive
from trainmark.worker.array_checkpoint import read_state, write_state
from trainmark.worker.checkpoint import CheckpointRefusedError

STATE = {
    "model": {"conv.weight": np.arange(6, dtype=np.float32).reshape(1, 2, 3), "half": np.ones(3, np.float16)},
    "optimizer": {"conv.weight/0": np.array(2.5), "count": np.array(7, np.int32), "empty": np.zeros((0, 4))},
    "randomness": [[0, 1, "a"]],
    "progress": {"num_steps": 3.0},
}


def write(path: Path, framework: str = "jax") -> bytes:
    with path.open("wb") as file:
        write_state(STATE, file, framework=framework)
    return path.read_bytes()


def array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def save_parts(path: Path, parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    plain = array_bytes(np.frombuffer(b'{"framework": "jax"}', np.uint8))
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in {"plain.npy": plain, **parts}.items():
            archive.writestr(name, data)


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointRefusedError) as caught:
        read_state(path, framework="jax")
    text = str(caught.value)
    assert path.name in text
    assert "run without --resume" in text, "what to do next"
    return text


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    write(tmp_path / "checkpoint")
    found = read_state(tmp_path / "checkpoint", framework="jax")
    for part in ("model", "optimizer"):
        expected: Any = STATE[part]
        assert list(found[part]) == list(expected)
        for name, array in expected.items():
            assert found[part][name].dtype == array.dtype
            assert found[part][name].flags.writeable
            np.testing.assert_array_equal(found[part][name], array)
    assert (found["randomness"], found["progress"]) == (STATE["randomness"], STATE["progress"])


@pytest.mark.parametrize("framework", ["paddle", "jax"])
def test_checkpoints_of_before_one_module_are_read(tmp_path: Path, framework: str) -> None:
    """They do not name their framework. Paddle's held their JSON as bytes, JAX's as text."""
    text = json.dumps({"randomness": [], "progress": {"num_steps": 1}})
    plain = np.frombuffer(text.encode(), np.uint8) if framework == "paddle" else np.array(text)
    np.savez(tmp_path / "old.npz", plain=plain, **{"model/fc.weight": np.eye(2), "optimizer/count": np.array(1)})
    found = read_state(tmp_path / "old.npz", framework=framework)
    assert found["progress"] == {"num_steps": 1}
    assert found["model"]["fc.weight"].tolist() == [[1, 0], [0, 1]]


def test_a_checkpoint_of_another_framework_is_named(tmp_path: Path) -> None:
    write(tmp_path / "checkpoint", framework="paddle")
    assert "written by a training in paddle, this one is in jax" in refusal(tmp_path / "checkpoint")


def test_fortran_order_is_kept(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    save_parts(tmp_path / "file", {"model/a.npy": array_bytes(array)})
    np.testing.assert_array_equal(read_state(tmp_path / "file", framework="jax")["model"]["a"], array)


class _Code:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.target),)


def test_objects_are_never_loaded(tmp_path: Path) -> None:
    objects = np.array([_Code(tmp_path / "made")], dtype=object)
    np.savez(tmp_path / "objects.npz", plain=objects, allow_pickle=True)
    assert "could run code" in refusal(tmp_path / "objects.npz")
    assert not (tmp_path / "made").exists()


def header(text: str, data: bytes = b"") -> bytes:
    line = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(line)) + line + data


def with_shape(shape: str, descr: str = "<f4", data: bytes = b"\0" * 8) -> bytes:
    return header(f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}}}", data)


HOSTILE: dict[str, tuple[dict[str, bytes], str]] = {
    "a shape of a petabyte": ({"model/a.npy": with_shape(f"({2**48},)")}, "does not fit its data"),
    "a negative shape": ({"model/a.npy": with_shape("(-2, -1)")}, "does not fit its data"),
    "text without width": ({"model/a.npy": with_shape(f"({2**48},)", "<U0", b"")}, "values of type"),
    "a structure": ({"model/a.npy": with_shape("(1,)", "|V8")}, "values of type"),
    "a cut header": ({"model/a.npy": b"\x93NUMPY"}, "damaged"),
    "no array": ({"model/a.npy": b"text"}, "damaged"),
    "version 3": ({"model/a.npy": b"\x93NUMPY\x03\x00" + bytes(20)}, "unknown version"),
    "code in a header": ({"model/a.npy": header("__import__('os').getcwd()")}, "damaged"),
    "another file": ({"model/a.txt": b"text"}, "unexpected part"),
    "another part": ({"../a.npy": array_bytes(np.zeros(1))}, "unexpected part"),
    "no name": ({"model/.npy": array_bytes(np.zeros(1))}, "unexpected part"),
    "JSON that is a list": ({"plain.npy": array_bytes(np.frombuffer(b"[]", np.uint8))}, "not an object"),
    "deep JSON": ({"plain.npy": array_bytes(np.frombuffer(b"[" * 200_000, np.uint8))}, "damaged"),
    "no JSON": ({"plain.npy": array_bytes(np.frombuffer(b"\xff{", np.uint8))}, "damaged"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_parts_are_refused(tmp_path: Path, what: str) -> None:
    parts, why = HOSTILE[what]
    save_parts(tmp_path / "file", parts)
    assert why in refusal(tmp_path / "file")


def test_compressed_parts_are_refused_before_they_grow(tmp_path: Path) -> None:
    np.savez_compressed(
        tmp_path / "bomb.npz",
        **{"plain": np.frombuffer(b"{}", np.uint8), "model/a": np.zeros(50_000_000, np.uint8)},
    )
    assert (tmp_path / "bomb.npz").stat().st_size < 60_000
    assert "compressed" in refusal(tmp_path / "bomb.npz")


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    """1000 entries of the directory that point at one member: 4 MB from 100 kB."""
    path, data = tmp_path / "file", array_bytes(np.zeros(1000, np.float32))
    save_parts(path, {"model/0000.npy": data})
    raw = path.read_bytes()
    begin = raw.rindex(b"PK\x01\x02")
    end = raw.index(b"PK\x05\x06")
    entries = [raw[begin:end].replace(b"model/0000", f"model/{number:04}".encode()) for number in range(1000)]
    directory = raw[raw.index(b"PK\x01\x02") : begin] + b"".join(entries)
    place = raw.index(b"PK\x01\x02")
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1001, 1001, len(directory), place, 0)
    path.write_bytes(raw[:place] + directory + tail)
    assert "larger than the file" in refusal(path)


def test_two_parts_of_one_name_are_refused(tmp_path: Path) -> None:
    save_parts(tmp_path / "file", {"model/a.npy": array_bytes(np.zeros(1))})
    with zipfile.ZipFile(tmp_path / "file", "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("model/a.npy", array_bytes(np.ones(1)))
    assert "same name" in refusal(tmp_path / "file")


def change_value(data: bytearray) -> None:
    data[data.index(np.arange(6, dtype=np.float32).tobytes()) + 9] ^= 1


def cut_end(data: bytearray) -> None:
    del data[-30:]


@pytest.mark.parametrize("damage", [change_value, cut_end, lambda data: data.clear()])
def test_damage_is_noticed(tmp_path: Path, damage: Callable[[bytearray], None]) -> None:
    data = bytearray(write(tmp_path / "checkpoint"))
    damage(data)
    (tmp_path / "checkpoint").write_bytes(data)
    assert "damaged" in refusal(tmp_path / "checkpoint")


def test_a_changed_or_missing_byte_anywhere_is_never_another_error(tmp_path: Path) -> None:
    """Either refused, or read as a file that differs in what no checksum covers, such as a time."""
    data = write(tmp_path / "checkpoint")
    for place in range(0, len(data), 7):
        for changed in (data[:place], data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]):
            (tmp_path / "changed").write_bytes(changed)
            with contextlib.suppress(CheckpointRefusedError):
                read_state(tmp_path / "changed", framework="jax")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "FileNotFoundError" in refusal(tmp_path / "gone")


def test_the_framework_is_in_the_file(tmp_path: Path) -> None:
    data = write(tmp_path / "checkpoint", framework="paddle")
    assert read_archive(io.BytesIO(data)).framework == "paddle"
