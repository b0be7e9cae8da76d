"""Reads and writes video files with PyAV.

Reading decodes no more than the wanted frames need. All packets are read first, undecoded, because the frame count in a
header cannot be trusted; this also tells where decoding can start. Then each wanted frame is decoded from the last key
frame before it. With key frames far apart, as x264 sets them by default (250 frames), that means decoding the clip up
to its last wanted frame.
"""

from __future__ import annotations

import importlib.util
import io
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainmark.datasets.jpeg import MAX_PIXELS, Pixels
from trainmark.errors import DataError
from trainmark.frameworks import required_extra

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

Choose = Callable[[int], npt.NDArray[np.int64]]
"""Maps the number of frames to the wanted ones, in order."""

# Only real containers: playlists and the like may name other files and URLs, which FFmpeg would open.
_READ_OPTIONS = {"format_whitelist": "mov,mp4,m4a,3gp,3g2,mj2,avi,matroska,webm"}

_CODECS = ("libx264", "mpeg4")  # every build of FFmpeg has the second
_FRAMES_PER_S = 25
_CODEC_OPTIONS = {
    # cpu-independent: x264's SIMD code for macroblock-tree rate control uses uninitialised memory when a row of
    # macroblocks does not fill its registers, so that the same frames gave different bytes from time to time.
    "libx264": {"crf": "18", "preset": "veryfast", "x264-params": "cpu-independent=1"},
    "mpeg4": {"qscale": "3"},
}


class NoFramesError(ValueError):
    """A valid container without any video frame."""


@dataclass(frozen=True, kw_only=True)
class _Index:
    times: list[int] | None
    """Time stamps of the frames, sorted; None if the container has none and frames can only be counted."""

    keys: list[tuple[int, int]]
    """For each key frame, sorted: its presentation time and the time to seek to.

    That is its decoding time, which AVI uses and which is never later; with other containers the seek may end at the
    previous key frame.
    """

    num_frames: int


def read_video(path: str, choose: Choose) -> tuple[list[Pixels | None], str | None]:
    """One entry for each wanted frame, and what went wrong, if anything. Raises ValueError if no frame can be read."""
    with _opened(path) as (container, stream):
        index = _read_index(container, stream)
        wanted = choose(index.num_frames)
        pictures, problem = _decode_wanted(container, stream, index, np.unique(wanted))
    return [pictures.get(int(number)) for number in wanted], problem


def check_video(path: str, *, decode: bool) -> tuple[int, str | None]:
    """Number of frames, and what is wrong. Decodes them all, or only counts. Raises ValueError if there are none."""
    num_decoded, problem = 0, None
    with _opened(path) as (container, stream):
        index = _read_index(container, stream)
        if not decode:
            return index.num_frames, None
        _rewind(container, stream, index)
        try:
            for frame in container.decode(stream):
                problem = problem or _why_bad(frame)
                num_decoded += 1
        except _import_av().FFmpegError as error:
            problem = problem or _words(error)
    if num_decoded < index.num_frames:
        problem = problem or f"only {num_decoded} of {index.num_frames} frames can be decoded"
    return num_decoded, problem


def encode_video(frames: Sequence[Pixels]) -> bytes:
    """Encodes frames as an MP4 file; the same frames always give the same bytes.

    Encodes to memory, so that a full disk is reported by the write alone, and on one thread, because more may change
    the bytes.
    """
    av = _import_av()
    codec = next(name for name in _CODECS if name in av.codecs_available)
    buffer = io.BytesIO()
    with av.open(buffer, mode="w", format="mp4") as container:
        stream = container.add_stream(codec, rate=_FRAMES_PER_S, options=_CODEC_OPTIONS[codec])
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.codec_context.thread_count = 1
        for pixels in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def require_video_encoder() -> None:
    """Raises DataError if PyAV is missing; called before the first clip is drawn."""
    if importlib.util.find_spec("av") is None:
        raise _missing_av("videos cannot be made")


@contextmanager
def _opened(path: str) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Turns FFmpeg's errors into ValueError with the same message."""
    av = _import_av()
    try:
        with av.open(path, options=_READ_OPTIONS) as container:
            yield container, _video_stream(container)
    except EOFError as error:  # nothing after the header
        raise NoFramesError("the video has no frames") from error
    except (av.FFmpegError, OSError) as error:
        raise ValueError(_words(error)) from error


def _video_stream(container: InputContainer) -> VideoStream:
    stream = next(iter(container.streams.video), None)
    if stream is None:
        raise NoFramesError("there is no video in the file")
    if stream.codec_context is None:
        raise ValueError("no decoder for this video")
    _refuse_bomb(stream.codec_context.height, stream.codec_context.width)
    stream.codec_context.thread_count = 1  # the loader already has one process per core
    return stream


def _read_index(container: InputContainer, stream: VideoStream) -> _Index:
    times: list[int | None] = []
    keys = []
    for packet in container.demux(stream):
        if packet.size == 0:  # the end of the stream
            continue
        if packet.is_keyframe and packet.pts is not None:
            keys.append((packet.pts, packet.pts if packet.dts is None else min(packet.pts, packet.dts)))
        if not packet.is_discard:  # decoded but not shown: later frames refer to it
            times.append(packet.pts)
    if not times:
        raise NoFramesError("the video has no frames")
    known = sorted({time for time in times if time is not None})
    complete = len(known) == len(times) and bool(keys)
    return _Index(times=known if complete else None, keys=sorted(keys), num_frames=len(times))


def _decode_wanted(
    container: InputContainer, stream: VideoStream, index: _Index, wanted: npt.NDArray[np.int64]
) -> tuple[dict[int, Pixels], str | None]:
    av = _import_av()
    pictures: dict[int, Pixels] = {}
    problem: str | None = None
    walk = _walk_by_count if index.times is None else _walk_by_time
    try:
        for number, frame in walk(container, stream, index, wanted):
            problem = problem or _why_bad(frame)
            pictures[number] = frame.to_ndarray(format="rgb24").astype(np.uint8, copy=False)
    except (av.FFmpegError, ValueError) as error:
        if not pictures:
            raise
        problem = problem or _words(error)
    if not pictures:
        raise ValueError(problem or "no frame of the video can be decoded")
    if len(pictures) < len(wanted):
        problem = problem or f"{len(wanted) - len(pictures)} of {len(wanted)} frames cannot be decoded"
    return pictures, problem


def _walk_by_time(
    container: InputContainer, stream: VideoStream, index: _Index, wanted: npt.NDArray[np.int64]
) -> Iterator[tuple[int, VideoFrame]]:
    assert index.times is not None
    frames: Iterator[VideoFrame] = iter(())
    begun_at: int | None = None
    for number in wanted.tolist():
        time = index.times[number]
        shown_at, place = index.keys[max(0, bisect_right(index.keys, time, key=lambda key: key[0]) - 1)]
        if begun_at is None or shown_at > begun_at:
            container.seek(place, stream=stream)
            frames, begun_at = container.decode(stream), shown_at
        for frame in frames:
            if frame.pts is None or frame.pts < time:
                continue
            if frame.pts == time:
                yield number, frame
            break  # already later: the wanted frame could not be decoded


def _walk_by_count(
    container: InputContainer, stream: VideoStream, index: _Index, wanted: npt.NDArray[np.int64]
) -> Iterator[tuple[int, VideoFrame]]:
    _rewind(container, stream, index)
    numbers = set(wanted.tolist())
    for number, frame in enumerate(container.decode(stream)):
        if number in numbers:
            yield number, frame
        if number >= wanted[-1]:
            return


def _rewind(container: InputContainer, stream: VideoStream, index: _Index) -> None:
    if index.times is not None:
        container.seek(min(index.keys[0][1], index.times[0]), stream=stream)
    else:
        container.seek(0)


def _why_bad(frame: VideoFrame) -> str | None:
    _refuse_bomb(frame.height, frame.width)
    return "damaged frames" if frame.is_corrupt else None


def _refuse_bomb(height: int, width: int) -> None:
    if height * width > MAX_PIXELS:
        raise ValueError(f"claims {width} x {height} pixels; the limit is {MAX_PIXELS:,}")


def _words(error: Exception) -> str:
    """FFmpeg's message without the path, which the caller adds."""
    return getattr(error, "strerror", None) or str(error)


def _import_av() -> Any:
    try:
        import av
    except ImportError as error:
        raise _missing_av("videos cannot be read") from error
    return av


def _missing_av(what: str) -> DataError:
    return DataError(
        what,
        why="PyAV is not installed",
        hint=f"pip install {required_extra('torch')}, or pip install av; folders of frames do not need it",
    )
