"""Frames to the bytes of an MP4 file, by PyAV; the same frames give the same bytes."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from typing import Any

from trainmark.datasets.jpeg import Pixels
from trainmark.errors import DataError

_CODECS = ("libx264", "mpeg4")  # the second is in every build of FFmpeg
_FRAMES_PER_S = 25
_OPTIONS = {"libx264": {"crf": "18", "preset": "veryfast"}, "mpeg4": {"qscale": "3"}}


def encode_video(frames: Sequence[Pixels]) -> bytes:
    """To memory, so that a full disk is told by the write alone. One thread: with more, bytes may differ."""
    import av

    codec = next(name for name in _CODECS if name in av.codecs_available)
    buffer = io.BytesIO()
    with av.open(buffer, mode="w", format="mp4") as container:
        stream: Any = container.add_stream(codec, rate=_FRAMES_PER_S, options=_OPTIONS[codec])
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.codec_context.thread_count = 1
        for pixels in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def require_video_encoder() -> None:
    """To be asked before the first clip is drawn."""
    if importlib.util.find_spec("av") is None:
        raise DataError(
            "videos cannot be made",
            why="PyAV, which writes them, is not installed",
            hint="pip install 'trainmark[torch]', or pip install av",
        )
