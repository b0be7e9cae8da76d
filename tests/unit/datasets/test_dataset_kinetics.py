"""Kinetics' two layouts, with the faults that real copies have."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trainmark.datasets.formats import check_dataset, find_format
from trainmark.datasets.kinetics.check import check_clips
from trainmark.datasets.kinetics.lists import Clip
from trainmark.datasets.kinetics.read import UnusableClipError, frame_name, load_clip, read_clips
from trainmark.datasets.kinetics.scan import scan_clips
from trainmark.datasets.kinetics.video import encode_video
from trainmark.datasets.report import FaultKind
from trainmark.errors import DataError

Encode = Callable[..., bytes]
FIRST_TO_LAST = lambda num_frames: np.linspace(0, num_frames - 1, 8).astype(np.int64)  # noqa: E731


@pytest.fixture
def folder(tmp_path: Path, encode: Encode) -> Path:
    """Four training clips and one for validation, three frames each."""
    root = tmp_path / "data"
    data = encode(quality=90)
    for clip in ("a/one", "a/two", "b c/three 3", "b c/four", "b c/five"):
        (root / "frames" / clip).mkdir(parents=True)
        for number in range(3):
            (root / "frames" / clip / frame_name(number)).write_bytes(data)
    lines = ["frames/a/one 3 0", "frames/a/two 3 0", "frames/b c/three 3 3 1", "frames/b c/four 3 1"]
    (root / "train.txt").write_text("\n".join(lines) + "\n")
    (root / "val.txt").write_text("frames/b c/five 3 1\r\n\r\n")
    return root


def refused(root: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        read_clips(root)
    assert "cannot be used" in caught.value.what
    assert caught.value.hint, "every error tells the next action"
    return caught.value


def kinds(root: Path, *, decode: bool = True) -> dict[str, FaultKind]:
    return {fault.path: fault.kind for fault in check_clips(root, decode=decode, num_workers=2).faults}


def test_a_list_of_frames_with_spaces_in_names(folder: Path) -> None:
    scan = read_clips(folder)
    assert scan.train[2] == Clip(path="frames/b c/three 3", label=1, num_frames=3)
    assert scan.val == (Clip(path="frames/b c/five", label=1, num_frames=3),)
    assert scan.classes == ("0", "1")
    summary = find_format("kinetics").summarise(folder)
    assert (summary.num_train, summary.num_val, summary.num_classes) == (4, 1, 2)
    report = check_dataset("kinetics", folder, decode=True)
    assert report.ok
    assert report.unit == "clips"
    assert [dict(split.counts) for split in report.splits] == [{"0": 2, "1": 2}, {"1": 1}]
    assert report.num_bytes == 15 * (folder / "frames/a/one" / frame_name(0)).stat().st_size


@pytest.mark.parametrize(
    "name",
    ["train_list.txt", "kinetics_train_list.txt", "train_videofolder.txt", "labels/train_videofolder.txt"],
)
def test_names_of_lists(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / "train.txt").rename(folder / name)
    assert len(read_clips(folder).train) == 4


@pytest.mark.parametrize("base", ["frames", "images", "images256", "train", "rawframes_train"])
def test_paths_of_a_list_may_begin_in_a_known_folder(folder: Path, base: str) -> None:
    (folder / "val.txt").unlink()
    (folder / "frames").rename(folder / base)
    (folder / "train.txt").write_text("a/one 3 0\nb c/four 3 1\n")
    assert [clip.path for clip in read_clips(folder).train] == [f"{base}/a/one", f"{base}/b c/four"]
    assert check_clips(folder, decode=True).ok


def test_names_of_classes(folder: Path) -> None:
    (folder / "classes.txt").write_text("abseiling\nair drumming\narchery\n")
    assert read_clips(folder).classes == ("abseiling", "air drumming", "archery")
    (folder / "classes.txt").write_text("abseiling\n")
    assert "train.txt:3 (the label 1 is not one of 0 to 0)" in refused(folder).why


def test_a_byte_order_mark_is_no_part_of_the_path(folder: Path) -> None:
    (folder / "train.txt").write_bytes(b"\xef\xbb\xbfframes/a/one 3 0\nframes/b c/four 3 1\n")
    assert read_clips(folder).train[0].path == "frames/a/one"


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        (b"frames/a/one 3 x", FaultKind.BAD_LABEL, "the label x is not an integer"),
        (b"frames/a/one 3 -1", FaultKind.BAD_LABEL, "the label -1 is not one of"),
        (b"frames/a/one 3 1000000", FaultKind.BAD_LABEL, "the label 1000000 is not one of"),
        (b"frames/a/one 3 " + b"9" * 5000, FaultKind.BAD_LABEL, "not an integer"),
        (b"frames/a/one three 0", FaultKind.BAD_LINE, "neither `path num_frames label` nor `video label`"),
        (b"frames/a/one", FaultKind.BAD_LINE, "neither"),
        (b"12 7", FaultKind.BAD_LINE, "neither"),
        (b"frames/a/\xe9t\xe9 3 0", FaultKind.NOT_TEXT, "not UTF-8"),
        (b"../elsewhere 3 0", FaultKind.OUTSIDE, "not a path below the folder: ../elsewhere"),
        (b"/etc 3 0", FaultKind.OUTSIDE, "not a path below the folder: /etc"),
        (b"frames/../../x.mp4 0", FaultKind.OUTSIDE, "not a path below"),
        (b"frames/a\x00 3 0", FaultKind.OUTSIDE, "not a path below the folder: frames/a\\x00"),
    ],
)
def test_a_bad_line_refuses_the_list_and_is_named(folder: Path, line: bytes, kind: FaultKind, words: str) -> None:
    (folder / "train.txt").write_bytes(b"frames/a/one 3 0\n" + line + b"\nframes/b c/four 3 1\n")
    error = refused(folder)
    assert "train.txt:2" in error.why
    assert words in error.why
    assert kinds(folder) == {"train.txt:2": kind}
    assert len(scan_clips(folder).train) == 2, "the other lines are still checked"


def test_all_that_is_wrong_is_told_at_once(folder: Path) -> None:
    (folder / "train.txt").write_text("frames/a/one 3 zero\n" * 12 + "/etc 3 0\n")
    (folder / "val.txt").write_text("")
    why = refused(folder).why
    assert "and 2 more" in why
    assert "train.txt:13" in why
    assert "val.txt (lists no clip)" in why


def test_a_label_of_val_that_train_does_not_have(folder: Path) -> None:
    (folder / "val.txt").write_text("frames/b c/five 3 7\n")
    assert "val.txt:1 (the label 7 is not one of 0 to 1)" in refused(folder).why


def test_a_list_of_another_folder(folder: Path) -> None:
    (folder / "train.txt").write_text("elsewhere/one 3 0\nelsewhere/two 3 0\n")
    assert "none of its first 2 clips exists, for example elsewhere/one" in refused(folder).why


def test_neither_list_nor_videos(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no clips found") as caught:
        read_clips(tmp_path)
    assert "train_videofolder.txt" in caught.value.hint
    with pytest.raises(DataError, match="not found"):
        read_clips(tmp_path / "nowhere")


def load(root: Path, path: str, num_frames: int | None = 3) -> list[tuple[int, ...]]:
    frames = load_clip(root.resolve(), Clip(path=path, label=0, num_frames=num_frames), FIRST_TO_LAST)
    assert len(frames.pixels) == 8
    return [frame.shape for frame in frames.pixels]


def test_missing_clip_is_met_when_its_turn_comes(folder: Path) -> None:
    for number in range(3):
        (folder / "frames/a/two" / frame_name(number)).unlink()
    (folder / "frames/a/two").rmdir()
    assert len(read_clips(folder).train) == 4, "downloads of Kinetics are never complete"
    assert kinds(folder) == {"frames/a/two": FaultKind.MISSING}
    with pytest.raises(UnusableClipError, match="folder not found"):
        load(folder, "frames/a/two")


def test_fewer_frames_than_listed(folder: Path) -> None:
    (folder / "frames/a/one" / frame_name(2)).unlink()
    (fault,) = check_clips(folder, decode=False).faults
    assert (fault.kind, fault.usable) == (FaultKind.FEWER_FRAMES, True)
    assert fault.problem == "1 of 3 listed frames are missing: img_00003.jpg"
    frames = load_clip(folder.resolve(), read_clips(folder).train[0], FIRST_TO_LAST)
    assert frames.problem == "img_00003.jpg: missing"


def test_a_clip_listed_with_no_frames(folder: Path) -> None:
    (folder / "train.txt").write_text("frames/a/one 0 0\nframes/b c/four 3 1\n")
    assert kinds(folder) == {"frames/a/one": FaultKind.NO_FRAMES}
    with pytest.raises(UnusableClipError, match="no frames"):
        load(folder, "frames/a/one", 0)


def test_damaged_frames(folder: Path, encode: Encode) -> None:
    data = encode(quality=90)
    (folder / "frames/a/one" / frame_name(0)).write_bytes(data[: len(data) // 2])
    (folder / "frames/a/two" / frame_name(1)).write_bytes(b"")
    assert kinds(folder) == {
        f"frames/a/one/{frame_name(0)}": FaultKind.TRUNCATED,
        f"frames/a/two/{frame_name(1)}": FaultKind.EMPTY_FILE,
    }
    frames = load_clip(folder.resolve(), read_clips(folder).train[0], FIRST_TO_LAST)
    np.testing.assert_array_equal(frames.pixels[0], frames.pixels[-1])
    for number in (1, 2):
        (folder / "frames/a/one" / frame_name(number)).unlink()
    assert load(folder, "frames/a/one"), "half a picture where there is no whole one"


def test_frames_of_different_sizes(folder: Path) -> None:
    from PIL import Image

    Image.new("RGB", (20, 30)).save(folder / "frames/a/one" / frame_name(1), format="JPEG")
    with pytest.raises(UnusableClipError, match="different sizes"):
        load(folder, "frames/a/one")


def test_links_may_not_lead_outside(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes((folder / "frames/a/one" / frame_name(0)).read_bytes())
    frame = folder / "frames/a/one" / frame_name(1)
    frame.unlink()
    frame.symlink_to(tmp_path / "secret")
    (folder / "frames/a/two").rename(tmp_path / "two")
    (folder / "frames/a/two").symlink_to(tmp_path / "two")
    found = kinds(folder)
    assert found["frames/a/two"] is FaultKind.OUTSIDE
    assert found[f"frames/a/one/{frame_name(1)}"] is FaultKind.OUTSIDE
    with pytest.raises(UnusableClipError, match="outside"):
        load(folder, "frames/a/two")
    frames = load_clip(folder.resolve(), read_clips(folder).train[0], FIRST_TO_LAST)
    assert frames.problem is not None
    assert "outside" in frames.problem


def test_a_hidden_link_beside_the_frames_is_not_looked_at(folder: Path, tmp_path: Path) -> None:
    (folder / "frames/a/one/.link").symlink_to(tmp_path)
    assert check_clips(folder, decode=True).ok


def test_a_hidden_clip_that_a_list_names_is_used(folder: Path) -> None:
    (folder / "frames/a/one").rename(folder / "frames/a/.one")
    lines = (folder / "train.txt").read_text()
    (folder / "train.txt").write_text(lines.replace("a/one", "a/.one"))
    assert check_clips(folder, decode=True).ok
    assert load(folder, "frames/a/.one") == [(60, 80, 3)] * 8


def test_links_inside_are_followed(folder: Path) -> None:
    frame = folder / "frames/a/one" / frame_name(1)
    frame.unlink()
    frame.symlink_to("../two/" + frame_name(1))
    assert check_clips(folder, decode=True).ok
    assert load(folder, "frames/a/one") == [(60, 80, 3)] * 8


def test_a_pipe_among_the_frames_does_not_stop_the_run(folder: Path) -> None:
    frame = folder / "frames/a/one" / frame_name(1)
    frame.unlink()
    os.mkfifo(frame)
    assert load(folder, "frames/a/one")
    assert kinds(folder) == {"frames/a/one": FaultKind.FEWER_FRAMES}


# -- videos ------------------------------------------------------------------------------------------------------------


def levels_clip(num_frames: int, step: int = 4) -> list[np.ndarray]:
    """Grey frames, each a little lighter: the level tells the number."""
    return [np.full((48, 64, 3), 20 + step * number, dtype=np.uint8) for number in range(num_frames)]


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    pytest.importorskip("av")
    root = tmp_path / "videos"
    data = encode_video(levels_clip(50))
    for place in ("train/run/one.mp4", "train/run/two.mp4", "train/jump/three.mp4", "val/run/four.mp4"):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_bytes(data)
    return root


def write_video(path: Path, frames: list[np.ndarray], codec: str, **options: str) -> None:
    import av

    with av.open(str(path), mode="w") as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.height, stream.width, stream.pix_fmt = *frames[0].shape[:2], "yuv420p"
        for pixels in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))


def shown_numbers(root: Path, path: str, wanted: list[int]) -> list[int]:
    clip = Clip(path=path, label=0, num_frames=None)
    frames = load_clip(root.resolve(), clip, lambda _: np.array(wanted, dtype=np.int64))
    assert frames.problem is None
    return [round((float(pixels.mean()) - 20) / 4) for pixels in frames.pixels]


def test_class_folders_of_videos(videos: Path) -> None:
    scan = read_clips(videos)
    assert scan.classes == ("jump", "run")
    assert [(clip.path, clip.label) for clip in scan.train] == [
        ("train/jump/three.mp4", 0),
        ("train/run/one.mp4", 1),
        ("train/run/two.mp4", 1),
    ]
    report = check_clips(videos, decode=True)
    assert report.ok
    assert [split.num_samples for split in report.splits] == [3, 1]


def test_hidden_names_are_no_clips_and_no_classes(videos: Path) -> None:
    before = read_clips(videos)
    (videos / "train/.cache").mkdir()
    (videos / "train/.cache/one.mp4").write_bytes(b"")
    (videos / "train/run/.one.mp4").write_bytes(b"")
    after = read_clips(videos)
    assert (after.classes, after.train) == (before.classes, before.train)
    report = check_clips(videos, decode=True)
    assert (report.faults, report.num_ignored) == ((), 2)


def test_a_list_of_videos(videos: Path) -> None:
    (videos / "train/run/one.mp4").rename(videos / "train/run/number 1.mp4")
    (videos / "train.txt").write_text("train/run/number 1.mp4 0\ntrain/jump/three.mp4 1\n")
    scan = read_clips(videos)
    assert scan.train[0] == Clip(path="train/run/number 1.mp4", label=0, num_frames=None)
    assert check_clips(videos, decode=True).ok


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("x.mp4", "libx264", {"bf": "2", "g": "12"}),
        ("x.mp4", "libx264", {"bf": "3", "g": "250"}),
        ("x.mkv", "libx264", {"bf": "2", "g": "10"}),
        ("x.avi", "mpeg4", {"bf": "0", "b": "4000000", "g": "12"}),
        ("x.avi", "mpeg4", {"bf": "2", "b": "4000000", "g": "12"}),
        ("x.webm", "libvpx", {"g": "20", "deadline": "realtime"}),
    ],
)
def test_exactly_the_wanted_frames(tmp_path: Path, name: str, codec: str, options: dict[str, str]) -> None:
    av = pytest.importorskip("av")
    if codec not in av.codecs_available:
        pytest.skip(f"this FFmpeg has no {codec}")
    write_video(tmp_path / name, levels_clip(50), codec, **options)
    wanted = [0, 3, 3, 17, 18, 30, 44, 49]
    assert shown_numbers(tmp_path, name, wanted) == wanted
    assert shown_numbers(tmp_path, name, [49]) == [49]


def test_the_number_of_frames_is_counted(videos: Path) -> None:
    seen = []

    def choose(num_frames: int) -> np.ndarray:
        seen.append(num_frames)
        return np.zeros(1, dtype=np.int64)

    load_clip(videos.resolve(), Clip(path="train/run/one.mp4", label=0, num_frames=None), choose)
    assert seen == [50]


def test_a_video_of_no_frames(videos: Path) -> None:
    import av

    with av.open(str(videos / "train/run/one.mp4"), mode="w") as container:
        sound = container.add_stream("aac", rate=8000)
        sound.layout = "mono"
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), dtype=np.float32), format="fltp", layout="mono")
        silence.sample_rate = 8000
        container.mux(sound.encode(silence))
        container.mux(sound.encode(None))
    (videos / "train/run/two.mp4").write_bytes(b"")
    with av.open(str(videos / "train/jump/three.mkv"), mode="w") as container:
        picture = container.add_stream("mpeg4", rate=25)
        picture.height, picture.width, picture.pix_fmt = 48, 64, "yuv420p"
        container.start_encoding()
    assert kinds(videos) == {
        "train/run/one.mp4": FaultKind.NO_FRAMES,
        "train/run/two.mp4": FaultKind.EMPTY_FILE,
        "train/jump/three.mkv": FaultKind.NO_FRAMES,
    }
    for name in ("run/one.mp4", "run/two.mp4", "jump/three.mkv"):
        with pytest.raises(UnusableClipError):
            load(videos, f"train/{name}", None)


def test_damaged_videos(videos: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one, two, three = (videos / f"train/{name}.mp4" for name in ("run/one", "run/two", "jump/three"))
    data = one.read_bytes()
    one.write_bytes(b"\0" * 500)
    two.write_bytes(data[: len(data) // 2])
    three.write_text("#EXTM3U\n#EXTINF:1,\n/etc/passwd\n")
    found = kinds(videos)
    assert set(found) == {"train/run/one.mp4", "train/run/two.mp4", "train/jump/three.mp4"}
    assert kinds(videos, decode=False).keys() == found.keys()
    with pytest.raises(UnusableClipError):
        load(videos, "train/run/one.mp4", None)
    with pytest.raises(UnusableClipError):
        load(videos, "train/jump/three.mp4", None)
    assert capfd.readouterr() == ("", ""), "FFmpeg's own words do not belong on the terminal"


def test_a_video_damaged_in_the_middle_is_partly_used(tmp_path: Path) -> None:
    pytest.importorskip("av")
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 256, (48, 64, 3), dtype=np.uint8) for _ in range(32)]
    write_video(tmp_path / "x.mp4", frames, "mpeg4", g="1", qscale="2")
    data = bytearray((tmp_path / "x.mp4").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 4000] = bytes(4000)
    (tmp_path / "x.mp4").write_bytes(data)
    clip = load_clip(tmp_path.resolve(), Clip(path="x.mp4", label=0, num_frames=None), FIRST_TO_LAST)
    assert clip.problem is not None
    assert len(clip.pixels) == 8


def test_a_missing_video(videos: Path) -> None:
    (videos / "train.txt").write_text("train/run/one.mp4 0\ntrain/run/lost.mp4 0\n")
    assert kinds(videos) == {"train/run/lost.mp4": FaultKind.MISSING}
    with pytest.raises(UnusableClipError, match="No such file"):
        load(videos, "train/run/lost.mp4", None)


def test_without_pyav_the_remedy_is_told(videos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(DataError, match="videos cannot be read") as caught:
        load(videos, "train/run/one.mp4", None)
    assert "pip install" in caught.value.hint
