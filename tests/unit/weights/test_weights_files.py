"""Files of weights are read as data: every kind gives the same tensors, and no file can do anything."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from trainmark.weights.neutral import FORMAT, WeightsError
from trainmark.weights.reading import WeightsFile, read_file

VALUES = {
    "conv.weight": np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2),
    "bn._mean": np.array([0.5, -2], dtype=np.float32),
}


def tensors() -> dict[str, torch.Tensor]:
    return OrderedDict((name, torch.from_numpy(array)) for name, array in VALUES.items())


def values_of(file: WeightsFile) -> dict[str, Any]:
    return {name: tensor.read() for name, tensor in file.stored.tensors.items()}


def assert_values(file: WeightsFile) -> None:
    found = values_of(file)
    assert list(found) == list(VALUES)
    for name, array in VALUES.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == np.float32


# -- every kind --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_state_dict_of_pytorch(tmp_path: Path, is_zip: bool) -> None:
    path = tmp_path / "model.pth"
    torch.save(tensors(), path, _use_new_zipfile_serialization=is_zip)
    assert_values(read_file(path))


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("key", ["state_dict", "model"])
def test_a_checkpoint_with_an_optimizer_and_options(tmp_path: Path, is_zip: bool, key: str) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    state = {"epoch": 3, key: tensors(), "optimizer": optimizer.state_dict(), "best": np.float64(3.5)}
    path = tmp_path / "model.pth"
    torch.save(state, path, _use_new_zipfile_serialization=is_zip)
    assert_values(read_file(path))


def test_parameters_views_and_half_precision(tmp_path: Path) -> None:
    base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    state = {
        "parameter": torch.nn.Parameter(base.clone()),
        "transposed": base.t(),
        "part": base[1:, 2:],
        "half": base.half(),
        "brain": base.bfloat16(),
        "double": base.double(),
    }
    torch.save(state, tmp_path / "model.pth")
    found = values_of(read_file(tmp_path / "model.pth"))
    for name, tensor in state.items():
        np.testing.assert_array_equal(found[name], tensor.detach().float().numpy(), err_msg=name)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_of_arrays_as_paddle_writes_it(tmp_path: Path, protocol: int) -> None:
    state = {**VALUES, "StructuredToParameterName@@": {"conv.weight": "conv2d_0.w_0"}}
    (tmp_path / "model.pdparams").write_bytes(pickle.dumps(state, protocol=protocol))
    file = read_file(tmp_path / "model.pdparams")
    assert_values(file)
    assert file.stored.is_paddle


def test_fortran_order_and_big_endian_arrays(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    (tmp_path / "model.pdparams").write_bytes(pickle.dumps({"fc.weight": array}, protocol=4))
    np.testing.assert_array_equal(values_of(read_file(tmp_path / "model.pdparams"))["fc.weight"], array)


def test_safetensors(tmp_path: Path) -> None:
    save_file(VALUES, tmp_path / "model.safetensors")
    found = values_of(read_file(tmp_path / "model.safetensors"))
    assert {name: array.tolist() for name, array in found.items()} == {n: a.tolist() for n, a in VALUES.items()}
    save_file(VALUES, tmp_path / "own.safetensors", metadata={"trainmark": FORMAT})
    assert read_file(tmp_path / "own.safetensors").stored.is_own


# -- hostile and damaged files -----------------------------------------------------------------------------------------


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("kind", ["paddle", "zip", "legacy"])
def test_code_in_a_file_is_named_and_never_run(tmp_path: Path, kind: str) -> None:
    target, path = tmp_path / "made", tmp_path / "model.pth"
    state = {**(VALUES if kind == "paddle" else tensors()), "extra": Evil(target)}
    if kind == "paddle":
        path.write_bytes(pickle.dumps(state, protocol=2))
    else:
        torch.save(state, path, _use_new_zipfile_serialization=kind == "zip")
    with pytest.raises(WeightsError, match=r"(posix|os)\.mkdir") as caught:
        read_file(path)
    assert "could run code" in str(caught.value)
    assert not target.exists()


HOSTILE = {
    "calls of attributes": b"\x80\x02cnumpy\nndarray\n)R}X\x01\x00\x00\x00aK\x01sb.",
    "a call of a value": b"\x80\x02K\x01K\x02\x85R.",
    "an unknown opcode": b"\x80\x02}\x82\x01.",
    "an instance": b"\x80\x02(ios\nsystem\n.",
    "an empty stack": b"\x80\x02R.",
    "no end": b"\x80\x02}q\x00(X\x04\x00\x00\x00name",
    "a nested key": b"\x80\x02}" + b")" + b"\x85" * 50_000 + b"K\x01s.",
    "a reference": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "a huge text": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"abc",
    "a huge memo": b"\x80\x02}r\xff\xff\xff\xff0.",
    "a list": b"\x80\x02]K\x01a.",
    "no tensors": b"\x80\x02}X\x01\x00\x00\x00aK\x01s.",
    "random bytes": bytes(range(256)) * 4,
    "nothing": b"",
    "text": b"weights" * 100,
    "a large header of safetensors": struct.pack("<Q", 2**60) + b"{}",
    "a wrong header of safetensors": struct.pack("<Q", 3) + b"{a}",
    "an html page": b"<!DOCTYPE html><html></html>",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_bytes_are_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "file.pth").write_bytes(HOSTILE[what])
    with pytest.raises(WeightsError, match=r"file\.pth"):
        read_file(tmp_path / "file.pth")


def test_a_shape_beyond_the_data_is_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1).expand(10**6)}, tmp_path / "a.pth")
    with pytest.raises(WeightsError, match="beyond its data"):
        read_file(tmp_path / "a.pth")
    state = pickle.dumps({"a": np.zeros((2, 3), np.float32)}, protocol=2)
    (tmp_path / "b.pth").write_bytes(state.replace(b"K\x02K\x03\x86", b"K\xffK\xff\x86"))
    file = read_file(tmp_path / "b.pth")
    with pytest.raises(WeightsError, match="values for a shape"):
        values_of(file)


def test_huge_shapes_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    state = pickle.dumps({"a": np.zeros((2, 3), np.float32)}, protocol=2)
    huge = b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86"
    (tmp_path / "a.pth").write_bytes(state.replace(b"K\x02K\x03\x86", huge))
    with pytest.raises(WeightsError, match="too large"):
        read_file(tmp_path / "a.pth")


def test_wrong_types_are_refused_when_they_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "a.pth").write_bytes(pickle.dumps({"numbers": np.zeros(3, np.int64)}, protocol=4))
    with pytest.raises(WeightsError, match="int64, expected floating point"):
        values_of(read_file(tmp_path / "a.pth"))
    (tmp_path / "b.pth").write_bytes(pickle.dumps({"objects": np.array([None, 1], dtype=object)}, protocol=4))
    with pytest.raises(WeightsError, match="Python objects"):
        values_of(read_file(tmp_path / "b.pth"))


def save_zip(path: Path, parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def zip_parts(tmp_path: Path) -> dict[str, bytes]:
    torch.save(tensors(), tmp_path / "whole.pth")
    with zipfile.ZipFile(tmp_path / "whole.pth") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_archives_that_pytorch_does_not_write_are_refused(tmp_path: Path) -> None:
    parts, path = zip_parts(tmp_path), tmp_path / "model.pth"
    bomb = {**parts, "whole/data/0": bytes(5_000_000)}
    save_zip(path, bomb, zipfile.ZIP_DEFLATED)
    with pytest.raises(WeightsError, match="compressed"):
        read_file(path)
    save_zip(path, {f"../../{name}": data for name, data in parts.items()})
    assert_values(read_file(path))  # nothing is extracted: names are only keys
    assert not (tmp_path.parent.parent / "whole").exists()
    save_zip(path, {name: data for name, data in parts.items() if "data.pkl" not in name})
    with pytest.raises(WeightsError, match=r"without data\.pkl"):
        read_file(path)
    save_zip(path, {**parts, "whole/constants.pkl": b""})
    with pytest.raises(WeightsError, match="TorchScript"):
        read_file(path)
    save_zip(path, {**parts, "whole/data/0": b"short"})
    with pytest.raises(WeightsError, match="are cut"):
        values_of(read_file(path))


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_file_cut_at_any_place_is_refused(tmp_path: Path, is_zip: bool) -> None:
    whole, path = io.BytesIO(), tmp_path / "model.pth"
    torch.save(tensors(), whole, _use_new_zipfile_serialization=is_zip)
    data = whole.getvalue()
    for end in range(0, len(data), max(1, len(data) // 60)):
        path.write_bytes(data[:end])
        with pytest.raises(WeightsError):
            values_of(read_file(path))


def test_a_changed_byte_of_an_archive_is_noticed(tmp_path: Path) -> None:
    torch.save(tensors(), tmp_path / "model.pth")
    data = bytearray((tmp_path / "model.pth").read_bytes())
    place = data.find(VALUES["conv.weight"].tobytes())
    data[place + 20] ^= 1
    (tmp_path / "model.pth").write_bytes(data)
    with pytest.raises(WeightsError, match="damaged"):
        values_of(read_file(tmp_path / "model.pth"))


def test_what_is_not_a_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), tmp_path / "missing"):
        with pytest.raises(WeightsError, match=r"regular file|cannot be read"):
            read_file(path)
