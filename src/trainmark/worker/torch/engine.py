"""PyTorch behind the measured loop: device, precision, processes and time. What a step does is `step`."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

from trainmark import host, rank_environment
from trainmark.units import format_count
from trainmark.worker.sanity import advise_on_bad_loss
from trainmark.worker.torch.checkpoint import (
    read_checkpoint,
    read_randomness,
    remove_unfinished,
    set_randomness,
    write_checkpoint,
)
from trainmark.worker.torch.collective import join_processes, slowest, sync_batch_norms, time_all_reduce
from trainmark.worker.torch.feed import Feed, FeedRequest, build_feed
from trainmark.worker.torch.ranks import copy_statistics_of_rank_0, require_same_data, write_on_rank_0
from trainmark.worker.torch.step import Precision, TrainStep
from trainmark.worker.torch.workload import Metric, Scores, TorchWorkload
from trainmark.workloads.registry import load_card, load_module
from trainmark.workloads.schedules import learning_rate, peak_learning_rate

_RUN_AHEAD = 3
"""Steps the host may queue before it waits for the device: enough to hide Python, few enough to keep memory low."""
_LOSS_SLOTS = 256


def build_engine(cell: Mapping[str, Any]) -> TorchEngine:
    return TorchEngine(cell)


_NO_MEMORY = (
    "can't allocate memory",
    "Cannot allocate memory",
    "out of memory",
    "std::bad_alloc",
    "ALLOC_FAILED",
    "was unable to find an engine to execute this computation",  # no algorithm of cuDNN got the memory it works in
)
_NO_MEMORY_UNDER_A_LIMIT = (
    "could not create a primitive",
    "could not execute a primitive",
    "could not create a memory",
    "can't start new thread",
)
"""What oneDNN and the interpreter say of an allocation that failed, and of other faults too."""


_SEEDS_APART = 65_537
"""Between ranks, so that seed 1 of one is not seed 0 of the next."""


def is_out_of_memory(error: BaseException) -> bool:
    """The host's allocators have no error type of their own; a library under torch says it in its own words."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(text in str(error) for text in _NO_MEMORY):
        return True
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return soft != resource.RLIM_INFINITY and any(text in str(error) for text in _NO_MEMORY_UNDER_A_LIMIT)


def limit_memory(device: str, num_bytes: int) -> None:
    """From now on this process has no more: its allocator fails as it would on a smaller device or host."""
    if device == "cpu":
        taken = host.private_bytes() or 0
        if taken >= num_bytes:
            raise MemoryError(f"torch itself has taken {taken:,} of the {num_bytes:,} bytes that are allowed")
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = num_bytes if hard == resource.RLIM_INFINITY else min(num_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
        return
    index = rank_environment.read("LOCAL_RANK", os.environ, default=0)
    total = torch.cuda.get_device_properties(index).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, num_bytes / total), index)


class TorchEngine:
    def __init__(self, cell: Mapping[str, Any]) -> None:
        self.rank = rank_environment.read("RANK", os.environ, default=0)
        self.world_size = rank_environment.read("WORLD_SIZE", os.environ, default=1)
        if self.world_size != cell["nodes"] * cell["devices_per_node"]:
            asked = f"{cell['nodes']} x {cell['devices_per_node']}"
            raise ValueError(
                f"{asked} was asked for, and the launcher started {format_count(self.world_size, 'processes')}"
            )
        self.samples_per_step = cell["batch_size_per_device"] * self.world_size
        self._cell = cell
        self._card = load_card(cell["workload"])
        self._size = self._card.sizes[cell["size"]]
        self._workload: TorchWorkload = load_module(cell["workload"], "torch")
        self._metric: Metric = load_module(cell["workload"], "metric")
        self._device = _choose_device(cell["device"])
        self._control = join_processes(self._device) if self.world_size > 1 else None
        self._precision = Precision.of(cell["precision"], self._device.type)
        self._precision.apply(has_static_shapes=self._card.has_static_shapes)
        torch.manual_seed(cell["seed"])
        self._feed = self._build_feed()
        require_same_data(self.gather((os.uname().nodename, _describe_data(self._feed))))
        self.steps_per_epoch = self._feed.steps_per_epoch
        self._train_step = self._build_step()
        if self.rank > 0:  # the same weights so far, but not the same dropout: ranks see other samples
            torch.manual_seed(cell["seed"] + _SEEDS_APART * self.rank)
        self._recipe_rate = peak_learning_rate(self._card.schedule, global_batch=self.samples_per_step)
        self._peak_rate: float = cell["lr"] or self._recipe_rate
        self._num_steps = 0
        self._recent: deque[torch.cuda.Event] = deque()
        self._losses = torch.zeros(_LOSS_SLOTS, pin_memory=self._device.type == "cuda")
        self._next_slot = 0
        self._prepare()
        self._first_weights = self._fingerprint()

    # -- building ------------------------------------------------------------------------------------------------------

    def _build_feed(self) -> Feed:
        request = FeedRequest(
            workload=self._workload,
            card=self._card,
            size=self._size,
            batch_size=self._cell["batch_size_per_device"],
            seed=self._cell["seed"],
            device=self._device,
            rank=self.rank,
            world_size=self.world_size,
            input_dtype=self._precision.dtype if self._cell["recipe"] == "fast" else torch.float32,
            channels_last=self._cell["recipe"] == "fast",
        )
        return build_feed(self._cell, request)

    def _build_step(self) -> TrainStep:
        recipe = self._cell["recipe"]
        model = self._workload.build_model(
            recipe=recipe, device_type=self._device.type, num_classes=self._feed.num_classes, size=self._size
        )
        model = model.to(self._device).train()
        if self._syncs_batch_norm:
            model = sync_batch_norms(model)
        if recipe == "fast":
            model = model.to(memory_format=torch.channels_last)
        self.model = model
        wrapped = model
        if self.world_size > 1:
            ids = [self._device.index] if self._device.type == "cuda" else None
            wrapped = DistributedDataParallel(model, device_ids=ids, gradient_as_bucket_view=True)
        return TrainStep(
            model=wrapped,
            workload=self._workload,
            optimizer_facts=self._card.optimizer,
            precision=self._precision,
            is_fast=recipe == "fast",
        )

    @property
    def _syncs_batch_norm(self) -> bool:
        """The framework has it for GPUs only; on the CPU each process keeps its own statistics, and `facts` says so."""
        return self._card.sync_batch_norm and self.world_size > 1 and self._device.type == "cuda"

    def _prepare(self) -> None:
        """Compile and capture before the clock starts; the state is as before when this returns."""
        self._feed.begin_epoch(0)
        if self._train_step.needs_preparation:
            self._train_step.prepare(self._feed.next_batch())
            self._feed.begin_epoch(0)
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()  # the copies that prepare() kept are not training's

    # -- the loop's side -----------------------------------------------------------------------------------------------

    def step(self) -> None:
        while len(self._recent) > _RUN_AHEAD:
            self._recent.popleft().synchronize()
        batch = self._feed.next_batch()
        self._train_step.set_learning_rate(self.learning_rate(self._num_steps))
        self._train_step.run(batch)
        self._num_steps += 1

    def twin_step(self) -> None:
        with self._train_step.without_exchange():
            self.step()

    def why_no_twin(self) -> str | None:
        return self._train_step.why_no_twin()

    def learning_rate(self, step: int) -> float:
        steps_per_epoch = self.steps_per_epoch or self._card.num_train_samples / self.samples_per_step
        epochs = self._cell["epochs"] or self._card.schedule.epochs
        num_steps = epochs * steps_per_epoch
        return learning_rate(self._card.schedule, peak=self._peak_rate, step=step, num_steps=num_steps, epochs=epochs)

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

    def agree(self, gravity: int, numbers: Sequence[int]) -> tuple[int, list[int]]:
        if self._control is None:
            return gravity, list(numbers)
        # On the host: a collective on the device would have to be waited for, and the queue would run dry.
        values = torch.tensor([gravity, *(numbers if self.rank == 0 else [0] * len(numbers))])
        distributed.all_reduce(values, op=distributed.ReduceOp.MAX, group=self._control)
        agreed, *of_rank_0 = values.tolist()
        return agreed, of_rank_0

    def gather(self, part: Any) -> list[Any]:
        if self._control is None:
            return [part]
        parts: list[Any] = [None] * self.world_size
        distributed.all_gather_object(parts, part, group=self._control)
        return parts

    def slowest(self, seconds: float) -> float:
        return slowest(seconds, self._control)

    def gradient_bytes(self) -> int:
        trained = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
        return sum(parameter.numel() * parameter.element_size() for parameter in trained)

    def time_all_reduce(self, num_bytes: int, *, max_seconds: float) -> list[float]:
        return time_all_reduce(num_bytes, device=self._device, control=self._control, max_seconds=max_seconds)[0]

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        self._feed.begin_epoch(epoch, step=step)

    def save(self, path: Path, progress: Mapping[str, float]) -> None:
        randomness = self._gather_on_rank_0(read_randomness(self._device))

        def write() -> None:
            write_checkpoint(path, {**self._train_step.state(), "randomness": randomness, "progress": dict(progress)})

        write_on_rank_0(write, self._control)

    def restore(self, path: Path) -> Mapping[str, float]:
        if self.rank == 0:
            remove_unfinished(path)
        state = read_checkpoint(path, self._device)
        self._train_step.load_state(state)
        set_randomness(state["randomness"][self.rank], self._device)
        progress: Mapping[str, float] = state["progress"]
        self._num_steps = int(progress["num_steps"])
        return progress

    def advise_on_bad_loss(self, step: int) -> str:
        return advise_on_bad_loss(
            rate=self.learning_rate(step - 1),
            peak=self._peak_rate,
            recipe_peak=self._recipe_rate,
            is_fp16=self._cell["precision"] == "amp",
        )

    def weights_changed(self) -> bool:
        return self._first_weights != self._fingerprint()

    def _fingerprint(self) -> list[float]:
        weights = [parameter.detach() for parameter in self.model.parameters() if parameter.requires_grad]
        return torch.stack(torch._foreach_norm(weights)).double().tolist()

    def evaluate(self, on_batch: Callable[[], None] = lambda: None) -> Mapping[str, float] | None:
        if not self._feed.can_evaluate:
            return None
        if self.world_size > 1:
            copy_statistics_of_rank_0(self.model)
        self.model.eval()
        scores = []
        with torch.no_grad(), self._precision.autocast():
            for batch in self._feed.eval_batches():
                scores.append(self._workload.score(self.model, batch))
                on_batch()
        self.model.train()
        return self._summarise(scores)

    def _summarise(self, scores: list[Scores]) -> dict[str, float]:
        """Over all ranks, by rank 0, told to all: a metric of items may take a while and is needed once."""
        gathered = self._gather_on_rank_0(_merge(scores))  # a rank without a validation sample has none
        told: list[Any] = [None]
        if self.rank == 0:
            total = _merge([part for part in gathered if part is not None])
            values = total.cpu().numpy() if isinstance(total, Tensor) else total
            told = [self._metric.summarise(values, self._feed.truth) if values is not None else {}]
        if self._control is not None:
            distributed.broadcast_object_list(told, src=0, group=self._control)
        metrics: dict[str, float] = told[0]
        return metrics

    def _gather_on_rank_0(self, part: Any) -> list[Any]:
        """Where the parts are large and only rank 0 needs them."""
        if self._control is None:
            return [part]
        on_host = part.cpu() if isinstance(part, Tensor) else part
        parts: list[Any] = [None] * self.world_size
        distributed.gather_object(on_host, parts if self.rank == 0 else None, dst=0, group=self._control)
        return parts

    def warnings(self) -> list[tuple[str, str]]:
        return self._feed.warnings() + self._train_step.warnings()

    def peak_memory_bytes(self) -> int | None:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated() + self._train_step.replay_bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

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
            "flags": {
                "sync_batch_norm": self._syncs_batch_norm,
                "tf32_matmul": torch.backends.cuda.matmul.allow_tf32,
                "tf32_convolution": torch.backends.cudnn.allow_tf32,
                "cudnn_benchmark": torch.backends.cudnn.benchmark,
                **self._train_step.facts(),
            },
        }

    def close(self) -> None:
        self._feed.close()
        if self.world_size > 1:
            distributed.destroy_process_group()


def _describe_data(feed: Feed) -> dict[str, Any]:
    num_train, num_val = feed.num_samples or (None, None)
    return {
        "training samples": num_train,
        "validation samples": num_val,
        "classes": feed.num_classes,
        "steps per epoch": feed.steps_per_epoch,
        "evaluation": "possible" if feed.can_evaluate else "impossible",
    }


def _merge(scores: list[Scores]) -> Scores | None:
    """Counts add up, items are collected."""
    if not scores:
        return None
    if isinstance(scores[0], Tensor):
        return torch.stack([part for part in scores if isinstance(part, Tensor)]).sum(0)
    return [item for part in scores for item in part if isinstance(item, dict)]


def _choose_device(kind: str) -> torch.device:
    if kind == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", rank_environment.read("LOCAL_RANK", os.environ, default=0))
    torch.cuda.set_device(device)
    # Copies on the host must not start a team of threads each: the cores are the decoders'.
    torch.set_num_threads(1)
    # Not the default stream: it is the one stream that waits for others, and JPEG decoding beside it would take turns.
    torch.cuda.set_stream(torch.cuda.Stream(device))
    return device
