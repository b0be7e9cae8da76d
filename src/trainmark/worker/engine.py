"""What the measured loop needs of a framework, and what a framework has to provide.

Nothing here or in the loop knows a framework, so a fake can replace it (`worker/fake/`).

To add a framework NAME, write

1. a `Framework` in `trainmark/frameworks.py`, or in another package's entry point `trainmark.engines`;
2. `worker/NAME/__init__.py` (or a package of any name) with the three functions of `EnginePackage`;
3. in that package, a subclass of `training.TrainingEngine` with its abstract methods:
   - the device: choose it, time stamps, wait, read losses, peak memory, facts;
   - the model: build it, train one step, one step without exchange, score batches, state in and out of a checkpoint;
   - `ranks.Ranks`: `maximum` and `gather` between processes; `ranks.SingleRank` for a single one;
   - `feed.Sources`: one synthetic batch; `samples.TrainBatches` and `EvalBatches` copied to the device;
     `jpeg_source.JpegSource` with an `Images`, for which `images.ImageDecoder` decodes on the CPU;
4. for each workload a `workloads/<id>/NAME.py` with `build_model`, `parameter_groups`, `examine`, `compute_loss`,
   `synthetic_batch` and `score`, as `worker/torch/workload.py` has them;
5. `worker/NAME/probe.py` with the two functions of `probe.ProbePackage`, for `trainmark parity`.

Which samples each rank takes and in what order, replacement of unusable samples, the learning rate, gathering of
evaluations, atomic checkpoints, resuming and all checks are shared and need nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from trainmark.messages.message import Message
from trainmark.runfolder.document import WorkloadCell

Timestamp = Any
"""A point in the device's own time. Opaque to the loop: a CUDA event, or a reading of the host's clock."""


def call(work: Callable[[], None]) -> None:
    """A pause where nobody measures."""
    work()


class EnginePackage(Protocol):
    """The module-level functions of `trainmark.worker.<framework>`."""

    def build_engine(self, cell: WorkloadCell) -> Engine: ...

    def is_out_of_memory(self, error: BaseException) -> bool: ...

    def limit_memory(self, device: str, num_bytes: int) -> None:
        """From now on allocations of this process fail as they would on a smaller device or host."""


class Engine(Protocol):
    rank: int
    world_size: int
    samples_per_step: int
    """Global: of all ranks together."""
    steps_per_epoch: int | None
    """None for data without epochs."""
    pause: Callable[[Callable[[], None]], None]
    """Calls its argument. An engine uses it inside `step` for what is not training, such as compiling for a batch of
    new shapes; whoever measures puts a function here that stops the clock meanwhile."""

    def step(self) -> None:
        """Queue one training step. May return before the device has done it."""

    def twin_step(self) -> None:
        """Queue one training step in which the ranks exchange no gradients and no buffers."""

    def why_no_twin(self) -> Message | None:
        """Why `twin_step` is not possible; None if it is."""

    def timestamp(self) -> Timestamp:
        """Queue a time stamp behind everything queued so far. Never waits."""

    def is_done(self, timestamp: Timestamp) -> bool:
        """Whether the device has passed the time stamp. Never waits."""

    def seconds_between(self, earlier: Timestamp, later: Timestamp) -> float:
        """Device time between two time stamps that are done."""

    def queue_loss(self) -> Any:
        """Request the loss of the latest step. Never waits; `read_loss` may be called once a later stamp is done."""

    def read_loss(self, handle: Any) -> float: ...

    def wait(self) -> None:
        """Until the device has done everything."""

    def agree(self, gravity: int, numbers: Sequence[int]) -> tuple[int, list[int]]:
        """The same on every rank: the largest gravity, and rank 0's numbers. All ranks must end at the same step."""

    def gather(self, part: Any) -> list[Any]:
        """Every rank's part, in the order of ranks, on every rank."""

    def slowest(self, seconds: float) -> float:
        """The largest of all ranks' values, the same on each; ranks wait for each other here."""

    def gradient_bytes(self) -> int:
        """What each rank contributes to the exchange of a step."""

    def time_all_reduce(self, num_bytes: int, *, max_seconds: float) -> list[float]:
        """Seconds of an all-reduce of that size over all ranks, measured several times."""

    def evaluate(self, on_batch: Callable[[], None] = lambda: None) -> Mapping[str, float] | None:
        """The metrics on the validation set; None if there is none. Calls `on_batch` after each batch."""

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        """`step` is the step of the epoch to start at, for a run that is resumed."""

    def save(self, path: Path, progress: Mapping[str, float]) -> None:
        """Write everything that the next step depends on, whole or not at all. Called on all ranks, written by one."""

    def restore(self, path: Path) -> Mapping[str, float]:
        """Undo everything since `save`; returns its `progress`."""

    def export_weights(self) -> Mapping[str, NDArray[Any]]:
        """Of the model, as `trainmark.weights.neutral` describes them."""

    def import_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """All tensors of the model, before the first step."""

    def advise_on_bad_loss(self, step: int) -> Message | None:
        """What to try if the loss of a step is not finite."""

    def weights_changed(self) -> bool:
        """Whether any weight differs from what it was before the first step."""

    def warnings(self) -> list[Message]:
        """New (code, message) pairs since the last call, such as images that could not be read."""

    def facts(self) -> Mapping[str, Any]:
        """What the run should remember: flags, parameter count, learning rate, what `fast` switched on."""

    def peak_memory_bytes(self) -> int | None: ...

    def close(self) -> None: ...
