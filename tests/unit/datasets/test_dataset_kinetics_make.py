"""Generated clips: exact labels, the same bytes from the same seed, and nothing in a frame that tells the class."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trainmark.cli.main import main
from trainmark.datasets.kinetics.check import check_clips
from trainmark.datasets.kinetics.make import make_kinetics
from trainmark.datasets.kinetics.read import frame_name, load_clip, read_clips
from trainmark.datasets.kinetics.scene import EVENTS, MAX_CLASSES, ORDERS, class_name, draw_clip, order_of
from trainmark.errors import DataError
from trainmark.workloads.tsm.data import eval_frames, train_frames

SMALL = (48, 64)


def fingerprints(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def draw(label: int, *, index: int = 5, num_frames: int = 16) -> list[bytes]:
    frames = draw_clip(order=order_of(label), seed=0, split=0, index=index, num_frames=num_frames, size=SMALL)
    return [frame.tobytes() for frame in frames]


def test_all_classes_are_made_of_the_same_frames() -> None:
    """So a model to which the order of frames means nothing is at chance: one in as many as there are classes."""
    clips = [draw(label) for label in range(MAX_CLASSES)]
    assert len({tuple(sorted(clip)) for clip in clips}) == 1
    assert len({tuple(clip) for clip in clips}) == MAX_CLASSES
    assert len(set(clips[0])) == 16, "no frame comes twice"


@pytest.mark.parametrize("num_segments", [4, 8])
def test_so_are_the_frames_that_a_model_gets_to_see(num_segments: int) -> None:
    """Of each event the same number, in training and in evaluation, whichever frames are drawn from the segments."""
    rng = np.random.default_rng(0)
    event_of = np.repeat(np.arange(4), 4)  # of the 16 frames, in the order of the events
    drawn = [train_frames(16, places) for places in rng.random((100, num_segments))]
    for frames in [eval_frames(16, num_segments), *drawn]:
        counts = np.bincount(event_of[frames], minlength=4)
        assert counts.tolist() == [num_segments // 4] * 4
    for label in (0, 5, 23):
        clip = draw(label)
        middle = sorted(clip[number] for number in eval_frames(16, num_segments))
        assert middle == sorted(draw(0)[number] for number in eval_frames(16, num_segments))


def test_a_mirrored_clip_keeps_its_class() -> None:
    """The events are told apart by colour and shape, which a mirror leaves alone, and the order is one in time."""
    frames = draw_clip(order=(2, 0, 3, 1), seed=0, split=0, index=0, num_frames=8, size=(128, 128))

    def tint(frame: np.ndarray) -> list[bool]:
        colour = frame.reshape(-1, 3).mean(axis=0)
        return (colour > colour.mean()).tolist()

    assert [tint(frame) for frame in frames] == [tint(frame[:, ::-1]) for frame in frames]
    assert len({tuple(tint(frame)) for frame in frames}) == 4


def test_names_of_classes_are_their_orders() -> None:
    names = [class_name(label) for label in range(MAX_CLASSES)]
    assert names == sorted(names)
    assert {order_of(label) for label in range(MAX_CLASSES)} == set(ORDERS)
    assert names[0] == "00_disc_square_star_cross"
    assert all(name[3:].split("_") == [EVENTS[event] for event in order_of(label)] for label, name in enumerate(names))
    assert len({order_of(label)[0] for label in range(4)}) == 4, "few classes begin differently already"


def test_layout_counts_and_report(tmp_path: Path) -> None:
    report = make_kinetics(tmp_path / "made", num_clips=20, num_classes=4, num_workers=1, size=SMALL)
    assert (report.num_train, report.num_val, report.unit) == (16, 4, "clips")
    scan = read_clips(tmp_path / "made")
    assert scan.classes == report.classes
    assert [clip.label for clip in scan.train] == [index % 4 for index in range(16)]
    assert (tmp_path / "made" / scan.train[1].path / frame_name(15)).is_file()
    assert (tmp_path / "made" / "val.txt").read_text().splitlines()[0] == f"val/{class_name(0)}/clip_000000 16 0"
    checked = check_clips(tmp_path / "made", decode=True, num_workers=1)
    assert checked.ok
    assert checked.num_bytes == report.num_bytes
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_bytes_do_not_depend_on_the_number_of_workers_or_clips(tmp_path: Path) -> None:
    for name, clips, workers in (("one", 20, 1), ("two", 20, 2), ("more", 40, 1)):
        make_kinetics(
            tmp_path / name, num_clips=clips, num_classes=2, num_workers=workers, num_frames=8, size=SMALL, seed=3
        )
    one, two, more = (fingerprints(tmp_path / name) for name in ("one", "two", "more"))
    assert one == two
    assert {path: digest for path, digest in one.items() if path.endswith(".jpg")}.items() <= more.items()
    pictures = [digest for path, digest in more.items() if path.endswith(".jpg")]
    assert len(set(pictures)) == len(pictures), "no frame is there twice, in either split"


def test_another_seed_gives_other_clips(tmp_path: Path) -> None:
    for seed in (0, 1):
        make_kinetics(
            tmp_path / str(seed), num_clips=4, num_classes=2, val_fraction=0, num_workers=1, size=SMALL, seed=seed
        )
    zero, one = (
        {digest for path, digest in fingerprints(tmp_path / name).items() if path.endswith(".jpg")} for name in "01"
    )
    assert not zero & one
    assert read_clips(tmp_path / "0").val is None


def test_as_videos(tmp_path: Path) -> None:
    pytest.importorskip("av")
    for name in ("one", "two"):
        report = make_kinetics(
            tmp_path / name, num_clips=10, num_classes=2, num_workers=1, num_frames=8, size=(64, 80), as_videos=True
        )
    assert fingerprints(tmp_path / "one") == fingerprints(tmp_path / "two")
    scan = read_clips(tmp_path / "one")
    assert scan.classes == report.classes
    assert check_clips(tmp_path / "one", decode=True).ok
    drawn = draw_clip(order=order_of(0), seed=0, split=0, index=2, num_frames=8, size=(64, 80))
    (clip,) = (clip for clip in scan.train if clip.path.endswith("000002.mp4"))
    shown = load_clip(scan.root, clip, np.arange).pixels
    assert len(shown) == 8
    for number in range(8):
        distances = [np.abs(shown[number].astype(int) - frame).mean() for frame in drawn]
        assert int(np.argmin(distances)) == number


def test_bytes_of_a_video_do_not_depend_on_the_content_of_new_memory() -> None:
    """glibc fills new memory with what MALLOC_PERTURB_ says: a read of uninitialised memory changes the bytes.

    x264 did read some, where a row of macroblocks (here five) does not fill a SIMD register.
    """
    pytest.importorskip("av")
    script = (
        "import hashlib;"
        "from trainmark.datasets.kinetics.scene import draw_clip;"
        "from trainmark.datasets.kinetics.video import encode_video;"
        "clips = [draw_clip(order=(0, 1, 2, 3), seed=0, split=0, index=index, num_frames=8, size=(64, 80))"
        " for index in range(8)];"
        "print(hashlib.sha256(b''.join(map(encode_video, clips))).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "MALLOC_PERTURB_": fill},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        for fill in ("1", "85", "255")
    }
    assert len(digests) == 1


def test_videos_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("av")
    folder = str(tmp_path / "clips")
    size = ["--images", "4", "--classes", "2", "--val-fraction", "0.5", "--workers", "1"]
    assert main(["data", "make", "kinetics", folder, "--as-videos", *size]) == 0
    assert "2 training and 2 validation clips" in capsys.readouterr().out
    assert sorted(path.suffix for path in (tmp_path / "clips").rglob("clip_*")) == [".mp4"] * 4
    assert main(["data", "check", "kinetics", folder]) == 0
    assert main(["data", "make", "imagenet", str(tmp_path / "images"), "--as-videos"]) == 2
    assert "imagenet does not take --as-videos" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_clips": 5}, "5 clips are too few for 6 classes"),
        ({"num_clips": 20}, "val would get 4"),
        ({"num_clips": -1}, "too few"),
        ({"num_classes": 1}, "cannot make 1 class"),
        ({"num_classes": 25}, "25 classes"),
        ({"val_fraction": 1.0}, "--val-fraction: must be"),
        ({"val_fraction": float("nan")}, "--val-fraction: must be"),
        ({"seed": -1}, "--seed: must be"),
        ({"size": (8, 8)}, "8 x 8"),
        ({"size": (49, 64)}, "64 x 49"),
        ({"num_frames": 12}, "12 frames"),
        ({"num_workers": 0}, "--workers: must be"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is_written(
    tmp_path: Path, wrong: dict[str, int], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        make_kinetics(tmp_path / "made", **{"num_clips": 100, **wrong})
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []
