"""PyTorch behind the measured loop: device, precision and time. What a step does is in `step`."""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch
from numpy.typing import NDArray
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

from trainmark import rank_environment
from trainmark.errors import first_line
from trainmark.messages.message import Message
from trainmark.messages.training import (
    checkpoint_damaged,
    checkpoint_has_objects,
    no_cpp_compiler,
    not_compiled,
)
from trainmark.runfolder.document import WorkloadCell
from trainmark.weights.neutral import Weights
from trainmark.worker.checkpoint import CheckpointRefusedError
from trainmark.worker.feed import BatchShape
from trainmark.worker.memory import peak_host_bytes
from trainmark.worker.ranks import Ranks, SingleRank
from trainmark.worker.torch import is_out_of_memory
from trainmark.worker.torch.compile_ahead import MAX_NEW_SHAPES_S, CompileHelpers, CompileTask
from trainmark.worker.torch.compiler import has_cpp_compiler, import_compiler
from trainmark.worker.torch.ranks import (
    copy_statistics_of_first,
    join_processes,
    sync_batch_norms,
    time_all_reduce,
)
from trainmark.worker.torch.sources import TorchSources
from trainmark.worker.torch.step import Precision, TrainStep, read_randomness, set_randomness
from trainmark.worker.torch.weights import export_weights, import_weights
from trainmark.worker.torch.workload import Batch, TensorScores, TorchWorkload
from trainmark.worker.training import TrainingEngine
from trainmark.workloads.card import Card
from trainmark.workloads.metric import Scores
from trainmark.workloads.optimisations import left_out_with_exchange, optimisations_of
from trainmark.workloads.registry import load_module

_RUN_AHEAD = 3
"""Steps the host may queue before it waits for the device: enough to hide Python, few enough to keep memory low."""
_COLD_S, _WARM_S = 80.0, 22.0
"""With an empty and with a filled compile cache: when the first step should come. Shapes that are not prepared by then
are prepared when a batch has them, in a pause."""
_LOSS_SLOTS = 256
_SEEDS_APART = 65_537
"""Between ranks, so that seed 1 of one is not seed 0 of the next."""


class TorchEngine(TrainingEngine[Batch]):
    def __init__(self, cell: WorkloadCell, *, without: Collection[str] = ()) -> None:
        """`without`: optimisations that the recipe `fast` is to leave out."""
        self._began_s = time.monotonic()
        self._earlier_peak_bytes = 0
        """Of memory, before a pause in which the training was prepared for new shapes."""
        self._without: frozenset[str] = frozenset()
        self._optimisations: frozenset[str] = frozenset()
        self._own_warnings: list[Message] = []
        if cell.recipe == "fast":
            self._leave_out(cell, without)
        if "compile" in self._optimisations and not has_cpp_compiler():
            self._leave_out(cell, {"compile"})
            self._own_warnings.append(not_compiled(what=no_cpp_compiler()))
        super().__init__(cell)

    def _leave_out(self, cell: WorkloadCell, names: Collection[str]) -> None:
        """And what needs these. Before anything is built, so that `facts` names what is used."""
        self._without |= frozenset(names)
        self._optimisations = optimisations_of(cell.workload, cell.device, without=self._without)

    # -- building ------------------------------------------------------------------------------------------------------

    def _start(self) -> Ranks:
        cell = self._cell
        self._helpers: CompileHelpers | None = None
        if cell.data == "synthetic":
            self._start_helpers(self._card.num_classes)
        # The driver needs seconds to make a context; meanwhile this thread imports what the workload needs.
        context = _make_context(cell.device)
        self._workload: TorchWorkload = load_module(cell.workload, "torch")
        if "compile" in self._optimisations:
            import_compiler()
        if context is not None:
            context.join()
        self._device = _choose_device(cell.device)
        ranks = join_processes(self._device) if self.world_size > 1 else SingleRank()
        if self._exchanges and self._optimisations:
            self._leave_out(cell, left_out_with_exchange(cell.workload))
        self._precision = Precision.of(cell.precision, self._device.type)
        self._precision.apply(has_static_shapes=self._card.has_static_shapes or cell.recipe == "fast")
        torch.manual_seed(cell.seed)
        self._recent: deque[torch.cuda.Event] = deque()
        self._losses = torch.zeros(_LOSS_SLOTS, pin_memory=self._device.type == "cuda")
        self._next_slot = 0
        return ranks

    def _start_helpers(self, num_classes: int, shapes: Sequence[BatchShape] = ()) -> None:
        """As soon as it is known what to compile: for synthetic data that is at once."""
        if self._cell.device == "cuda" and self.world_size == 1 and "compile" in self._optimisations:
            self._helpers = CompileHelpers(self._cell, self._without, num_classes=num_classes, shapes=shapes)

    def _sources(self) -> TorchSources:
        is_channels_last = "channels_last" in self._optimisations
        return TorchSources(
            workload=self._workload,
            size=self._size,
            device=self._device,
            input_dtype=self._precision.dtype if is_channels_last else torch.float32,
            channels_last=is_channels_last,
        )

    def _build(self) -> None:
        self._shapes = self._feed.shapes_ahead() if "fixed_shapes" in self._optimisations else []
        if self._helpers is None:
            self._start_helpers(self._feed.num_classes, self._shapes)
        recipe = self._cell.recipe
        model = self._workload.build_model(
            recipe=recipe,
            device_type=self._device.type,
            num_classes=self._feed.num_classes,
            size=self._size,
            without=self._without,
        )
        model = model.to(self._device).train()
        if self._syncs_batch_norm:
            model = sync_batch_norms(model)
        if "channels_last" in self._optimisations:
            model = model.to(memory_format=torch.channels_last)
        self.model = model
        wrapped = model
        if self._exchanges:
            ids = [self._device.index] if self._device.type == "cuda" else None
            wrapped = DistributedDataParallel(model, device_ids=ids, gradient_as_bucket_view=True)
        self._train_step = TrainStep(
            model=wrapped,
            workload=self._workload,
            optimizer_facts=self._card.optimizer,
            precision=self._precision,
            uses=self._optimisations,
        )
        self._train_step.pause = lambda work: self.pause(partial(self._prepare_late, work))
        if self.rank > 0:  # the ranks have the same weights, but must not have the same dropout: their samples differ
            torch.manual_seed(self._cell.seed + _SEEDS_APART * self.rank)

    @property
    def _exchanges(self) -> bool:
        """A group of one process is one too."""
        return distributed.is_initialized()

    @property
    def _syncs_batch_norm(self) -> bool:
        """PyTorch has it for GPUs only; on the CPU each process keeps its own statistics, and `facts` says so."""
        return self._card.sync_batch_norm and self.world_size > 1 and self._device.type == "cuda"

    def _warm_up(self) -> None:
        if self._helpers is not None:
            self._helpers.wait()
        is_all_prepared = True
        if self._train_step.needs_preparation and self._shapes:
            is_all_prepared = self._prepare_ahead()
            self._feed.restart()
        elif self._train_step.needs_preparation:
            self._train_step.prepare(self._train_step.arrange(self._feed.next_batch()))
            self._feed.begin_epoch(0)
        if self._helpers is not None and is_all_prepared:
            self._helpers.note_success()
        self._forget_peak()

    def _prepare_ahead(self) -> bool:
        """One set of shapes after the other while there is time; whether it was enough for all.

        All processes prepare the same ones: the steps of a preparation exchange gradients.
        """
        limit_s = _WARM_S if self._helpers is not None and self._helpers.is_cache_warm else _COLD_S
        longest_s = 0.0
        for number, shape in enumerate(self._shapes):
            begin_s = time.monotonic() - self._began_s
            if number > 0 and self._ranks.slowest(begin_s + longest_s) > limit_s:
                return False
            batch = self._train_step.make_blank(shape, batch_size=self._cell.batch_size_per_device)
            self._train_step.prepare(batch)
            self.wait()
            longest_s = max(longest_s, time.monotonic() - self._began_s - begin_s)
        return True

    def _prepare_late(self, prepare: Callable[[], None]) -> None:
        """In a pause of the training: what the loaders made meanwhile is thrown away, as after a checkpoint."""
        if self._device.type == "cuda":
            self._earlier_peak_bytes = max(self._earlier_peak_bytes, torch.cuda.max_memory_allocated())
        prepare()
        self._forget_peak()
        self._feed.restart()

    def _forget_peak(self) -> None:
        """The copies that a preparation kept do not belong to training."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()

    # -- training ------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        while len(self._recent) > _RUN_AHEAD:
            self._recent.popleft().synchronize()
        super().step()

    def _train(self, batch: Batch, rate: float) -> None:
        self._train_step.set_learning_rate(rate)
        self._train_step.run(batch)

    def twin_step(self) -> None:
        with self._train_step.without_exchange():
            self.step()

    def why_no_twin(self) -> Message | None:
        return self._train_step.why_no_twin()

    def timestamp(self) -> Any:
        if self._device.type == "cpu":
            return time.perf_counter()
        # Blocking: the thread sleeps while it waits. By default it spins, and a core that spins decodes no images.
        event = torch.cuda.Event(enable_timing=True, blocking=True)
        event.record()
        self._recent.append(event)
        return event

    def is_done(self, timestamp: Any) -> bool:
        return self._device.type == "cpu" or bool(timestamp.query())

    def seconds_between(self, earlier: Any, later: Any) -> float:
        if self._device.type == "cpu":
            return float(later - earlier)
        return float(earlier.elapsed_time(later)) / 1000

    def queue_loss(self) -> int:
        slot = self._next_slot
        self._next_slot = (slot + 1) % _LOSS_SLOTS
        self._losses[slot].copy_(self._train_step.loss, non_blocking=True)
        return slot

    def read_loss(self, handle: int) -> float:
        return self._losses[handle].item()

    def wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
            self._recent.clear()

    def gradient_bytes(self) -> int:
        trained = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
        return sum(parameter.numel() * parameter.element_size() for parameter in trained)

    def time_all_reduce(self, num_bytes: int, *, max_seconds: float) -> list[float]:
        return time_all_reduce(num_bytes, device=self._device, ranks=self._ranks, max_seconds=max_seconds)[0]

    def _fingerprint(self) -> Sequence[float]:
        weights = [parameter.detach() for parameter in self.model.parameters() if parameter.requires_grad]
        norms: list[float] = torch.stack(torch._foreach_norm(weights)).double().tolist()
        return norms

    # -- evaluation and checkpoints ------------------------------------------------------------------------------------

    def _score(self, batches: Iterator[Batch], on_batch: Callable[[], None]) -> Scores | None:
        if self.world_size > 1:
            copy_statistics_of_first(self.model)
        self.model.eval()
        scores = []
        with torch.no_grad(), self._precision.autocast():
            for batch in batches:
                scores.append(self._workload.score(self.model, batch))
                on_batch()
        self.model.train()
        return _merge(scores)

    def close(self) -> None:
        self.wait()
        self._train_step.release_graphs()
        super().close()

    def _state(self) -> dict[str, Any]:
        return self._train_step.state()

    def _load_state(self, state: Mapping[str, Any]) -> None:
        try:
            self._train_step.load_state(state)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            raise ValueError(str(error)) from error  # other layers than those of the model

    def export_weights(self) -> dict[str, NDArray[Any]]:
        return export_weights(self.model)

    def import_weights(self, weights: Weights) -> None:
        import_weights(self.model, weights)
        self._first_weights = self._fingerprint()

    def _dump(self, state: Mapping[str, Any], file: BinaryIO) -> None:
        torch.save(dict(state), file)

    def _load(self, path: Path) -> Mapping[str, Any]:
        """`weights_only`: a file that holds anything but tensors and plain values is refused."""
        try:
            state: dict[str, Any] = torch.load(path, map_location=self._device, weights_only=True)
        except pickle.UnpicklingError as error:
            raise CheckpointRefusedError(path, checkpoint_has_objects()) from error
        except (EOFError, OSError, RuntimeError, ValueError, LookupError) as error:
            if is_out_of_memory(error):
                raise
            raise CheckpointRefusedError(path, checkpoint_damaged(error=first_line(error))) from error
        return state

    def _randomness(self) -> list[Tensor]:
        return read_randomness(self._device)

    def _set_randomness(self, state: list[Tensor]) -> None:
        set_randomness(state, self._device)

    # -- what the run should remember ----------------------------------------------------------------------------------

    def warnings(self) -> list[Message]:
        new, self._own_warnings = self._own_warnings, []
        return super().warnings() + new

    def peak_memory_bytes(self) -> int | None:
        if self._device.type == "cuda":
            allocated = max(self._earlier_peak_bytes, torch.cuda.max_memory_allocated())
            return allocated + self._train_step.replay_bytes
        return peak_host_bytes()

    def facts(self) -> Mapping[str, Any]:
        is_cuda = self._device.type == "cuda"
        return {
            "framework": f"torch {torch.__version__}",
            "device_name": torch.cuda.get_device_name() if is_cuda else None,
            "cuda": torch.version.cuda if is_cuda else None,
            "cudnn": torch.backends.cudnn.version() if is_cuda else None,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())) if is_cuda else None,
            "num_threads": torch.get_num_threads(),
            "num_parameters": sum(p.numel() for p in self.model.parameters() if p.requires_grad),
            "num_classes": self._feed.num_classes,
            "learning_rate_peak": self._peak_rate,
            "optimisations": sorted(self._optimisations),
            "flags": {
                "sync_batch_norm": self._syncs_batch_norm,
                "tf32_matmul": torch.backends.cuda.matmul.allow_tf32,
                "tf32_convolution": torch.backends.cudnn.allow_tf32,
                "cudnn_benchmark": torch.backends.cudnn.benchmark,
                **self._train_step.facts(),
            },
        }


class CompilingEngine(TorchEngine):
    """Fills the compile cache with its share of a training's parts, and trains nothing."""

    def __init__(self, cell: WorkloadCell, task: CompileTask) -> None:
        self._task = task
        super().__init__(cell, without=task.without)

    def _load_card(self) -> Card:
        return replace(super()._load_card(), num_classes=self._task.num_classes)

    def _start_helpers(self, num_classes: int, shapes: Sequence[BatchShape] = ()) -> None:
        """It is one itself."""

    def _warm_up(self) -> None:
        torch.backends.cudnn.benchmark = False  # what it chooses here is of no use to the training
        for batch in self._task_batches():
            self._train_step.compile_share(batch, claims=self._task.claims, is_first=self._task.is_first)

    def _task_batches(self) -> Iterator[Batch]:
        if not self._task.shapes:
            yield self._train_step.arrange(self._feed.next_batch())
        for number, shape in enumerate(self._task.shapes):
            if number == 0 or time.monotonic() - self._began_s < MAX_NEW_SHAPES_S:
                yield self._train_step.make_blank(shape, batch_size=self._cell.batch_size_per_device)


def _merge(scores: list[TensorScores]) -> Scores | None:
    """Counts are added on the device, items are collected."""
    if not scores:
        return None
    if isinstance(scores[0], Tensor):
        counts: Scores = torch.stack([part for part in scores if isinstance(part, Tensor)]).sum(0).cpu().numpy()
        return counts
    return [item for part in scores if isinstance(part, list) for item in part]


def _own_gpu() -> torch.device:
    return torch.device("cuda", rank_environment.read("LOCAL_RANK", os.environ, default=0))


def _make_context(kind: str) -> threading.Thread | None:
    """The first tensor on a GPU makes the process's context there, while Python is free for other threads."""
    if kind == "cpu":
        return None

    def make() -> None:
        with contextlib.suppress(RuntimeError):  # the main thread will meet it too, and say it
            torch.empty(1, device=_own_gpu())

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    return thread


def _choose_device(kind: str) -> torch.device:
    if kind == "cpu":
        return torch.device("cpu")
    device = _own_gpu()
    torch.cuda.set_device(device)
    # Copies on the host must not start a team of threads each: the decoders need the cores.
    torch.set_num_threads(1)
    # Not the default stream: that one waits for all others, so JPEG decoding would take turns with training.
    torch.cuda.set_stream(torch.cuda.Stream(device))
    return device
