"""maskrcnn-benchmark and NGC's Mask R-CNN: `Training Iteration: 20 ... time : 0.31 (0.44)`; the end states FPS."""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Meaning, Probe, read_stated, read_step, read_wholes
from trainmark.logs.printed import NUMBER, patterns

_STEP = patterns(
    rb"\btime ?: (?P<seconds>" + NUMBER + rb") \((?P<mean>" + NUMBER + rb")\)",
    rb"\b(?:Training Iteration|iter): (?P<step>\d{1,12})",
    rb"\bloss ?: (?P<loss>" + NUMBER + rb") \(",
    rb"\b(?:memory|max mem) ?: (?P<memory_mb>" + NUMBER + rb")",
)

DIALECT = Dialect(
    name="maskrcnn-benchmark",
    summary="maskrcnn-benchmark and NGC Mask R-CNN: median seconds of the last iterations, FPS at the end",
    framework="torch",
    unit="images",
    meaning=Meaning.MEDIAN,
    steps=(
        Probe(anchor=b"Training Iteration: ", patterns=_STEP, read=read_step),
        Probe(anchor=b"maskrcnn_benchmark.trainer INFO: eta: ", patterns=_STEP, read=read_step),
        # A log that was cut down to its last lines still tells its speed.
        Probe(
            anchor=b"Training perf is: ",
            patterns=patterns(rb"Training perf is: (?P<rate>" + NUMBER + rb") FPS\s{0,4}$"),
            read=read_stated("Training perf"),
        ),
        Probe(
            anchor=b"train_perf_fps : ",
            patterns=patterns(rb"train_perf_fps : (?P<rate>" + NUMBER + rb")"),
            read=read_stated("train_perf_fps"),
        ),
    ),
    others=(
        Probe(
            anchor=b"IMS_PER_BATCH",
            patterns=patterns(rb"IMS_PER_BATCH: (?P<global_batch_size>\d{1,9})"),
            read=read_wholes,
            where="ends",
        ),
    ),
)
