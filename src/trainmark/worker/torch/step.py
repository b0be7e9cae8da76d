"""One training step in PyTorch: eager, compiled, or captured as a whole into a CUDA graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils import _pytree

from trainmark.messages.message import Message
from trainmark.messages.scaling import one_process, step_captured
from trainmark.worker.engine import call
from trainmark.worker.feed import BatchShape
from trainmark.worker.torch.compiler import compiler_options, configure_compiler
from trainmark.worker.torch.optimizer import build_optimizer, fill_state, load_state, read_state
from trainmark.worker.torch.workload import Batch, TorchWorkload
from trainmark.workloads.card import Optimizer
from trainmark.workloads.torch_parts import CompileShare, compiling

_WARM_STEPS = 3
"""Before capture: cuDNN benchmarks its algorithms, the allocator and the optimizer make their buffers."""
_WARM_STEPS_WITH_EXCHANGE = 11
"""DDP rebuilds its buckets after the first step and times the next ten, which cannot be captured."""

_DTYPES = {
    "fp64": torch.float64,  # for parity checks only: no cell can ask for it
    "fp32": torch.float32,
    "tf32": torch.float32,
    "amp": torch.float16,
    "bf16": torch.bfloat16,
}


@dataclass(frozen=True, kw_only=True)
class Precision:
    name: str
    device_type: str
    dtype: torch.dtype

    @classmethod
    def of(cls, name: str, device_type: str) -> Precision:
        return cls(name=name, device_type=device_type, dtype=_DTYPES[name])

    def apply(self, *, has_static_shapes: bool) -> None:
        """fp32 means fp32: TF32 is off unless it is asked for."""
        torch.backends.cuda.matmul.allow_tf32 = self.name == "tf32"
        torch.backends.cudnn.allow_tf32 = self.name == "tf32"
        torch.backends.cudnn.benchmark = has_static_shapes

    @property
    def is_mixed(self) -> bool:
        return self.dtype in (torch.float16, torch.bfloat16)

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device_type, self.dtype if self.is_mixed else torch.bfloat16, enabled=self.is_mixed)


class TrainStep:
    """Model, optimizer and loss scaler; `run` trains one step and puts its loss into `loss`, on the device."""

    def __init__(
        self,
        *,
        model: nn.Module,
        workload: TorchWorkload,
        optimizer_facts: Optimizer,
        precision: Precision,
        uses: Collection[str] = (),
    ) -> None:
        """`uses`: names of `OPTIMISATIONS`; none: as the recipe `reference` trains."""
        self._model, self._workload, self._precision = model, workload, precision
        self._is_cuda = precision.device_type == "cuda"
        self._uses = frozenset(uses)
        self._is_fused = "fused_optimizer" in self._uses
        self._is_compiled = "compile" in self._uses
        self._arrange = getattr(workload, "arrange", None) if "fixed_shapes" in self._uses else None
        self._make_blank = getattr(workload, "make_blank", None)
        self._exchanges = isinstance(model, DistributedDataParallel)
        self._wants_graph = "whole_step_graph" in self._uses  # with the collectives
        self._captures: dict[Shapes, _Captured] = {}
        """One graph for each set of shapes that batches have; most workloads have one."""
        self._prepared: set[Shapes] = set()
        self.pause: Callable[[Callable[[], None]], None] = call
        """Around a preparation that comes in the middle of a training, for a batch of shapes that are new."""
        self.replay_bytes = 0
        """Memory that captured steps work in, which the allocator counts only during capture."""
        device = next(model.parameters()).device
        self.loss = torch.zeros((), device=device)
        self._optimizer_facts = optimizer_facts
        self._bare: nn.Module = model.module if isinstance(model, DistributedDataParallel) else model
        groups = workload.parameter_groups(self._bare)
        self._scales = [group.lr_scale for group in groups]
        # A captured graph reads its learning rates from tensors; groups of the same scale share one tensor.
        self._rates = {scale: torch.zeros((), device=device) for scale in self._scales} if self._wants_graph else {}
        rated = [
            {
                "params": list(group.params),
                "weight_decay": group.weight_decay,
                "lr": self._rates.get(group.lr_scale, 0.0),
            }
            for group in groups
        ]
        self.optimizer = build_optimizer(optimizer_facts, rated, is_fused=self._is_fused)
        if self._uses:
            fill_state(self.optimizer, optimizer_facts, is_fused=self._is_fused)
        self._scaler = torch.amp.GradScaler(precision.device_type, enabled=precision.name == "amp")
        self._compute_loss = self._compile() if self._is_compiled else self._plain_loss

    @property
    def loss_scale(self) -> float:
        """What the gradients of the next backward pass are multiplied by until the optimizer steps; 1 without amp."""
        return self._scaler.get_scale()

    @property
    def needs_preparation(self) -> bool:
        return self._is_compiled or self._wants_graph

    def set_learning_rate(self, rate: float) -> None:
        for scale, tensor in self._rates.items():
            tensor.fill_(rate * scale)
        if not self._rates:
            for group, scale in zip(self.optimizer.param_groups, self._scales, strict=True):
                group["lr"] = rate * scale

    def run(self, batch: Batch) -> None:
        batch = self.arrange(batch)
        if not self._prepared:
            self.loss = self._step(batch)
            return
        shapes = _shapes_of(batch)
        # With other processes a step of preparation would need a step of theirs: there the step itself compiles.
        if shapes not in self._prepared and not self._exchanges:
            self.pause(lambda: self.prepare(batch))
        captured = self._captures.get(shapes)
        if captured is None:
            self.loss = self._step(batch)
            return
        captured.replay(batch)
        self.loss = captured.loss

    @contextlib.contextmanager
    def without_exchange(self) -> Iterator[None]:
        """Steps inside exchange neither gradients nor buffers. SyncBN is part of the forward pass and stays."""
        model = self._model
        assert isinstance(model, DistributedDataParallel)
        with model.no_sync():
            # The flag reflects the previous step: without this the first twin step would still send the buffers,
            model.require_forward_param_sync = False
            yield
        model.require_forward_param_sync = True  # and without this the first step after the twin steps would not.

    def why_no_twin(self) -> Message | None:
        if self._captures:
            return step_captured()
        return None if self._exchanges else one_process()

    def arrange(self, batch: Batch) -> Batch:
        """What `run` does first with a batch; `prepare` and `compile_share` take the result."""
        return batch if self._arrange is None else self._arrange(self._bare, batch)

    def make_blank(self, shape: BatchShape, *, batch_size: int) -> Batch:
        """An arranged batch of these shapes, with nothing of the data in it."""
        assert self._make_blank is not None
        return self._make_blank(self._bare, shape, batch_size=batch_size)

    def prepare(self, batch: Batch) -> None:
        """Compile, warm up and capture on an arranged batch, then restore all state: the next step is the next one."""
        saved = self._save_state()
        for _ in range(_WARM_STEPS_WITH_EXCHANGE if self._exchanges and self._wants_graph else _WARM_STEPS):
            self._step(batch)
        if self._wants_graph:
            self._capture(batch)
        self._restore_state(saved)
        self._prepared.add(_shapes_of(batch))

    def facts(self) -> dict[str, Any]:
        return {
            "layout": "channels_last" if "channels_last" in self._uses else "contiguous",
            "compiled": self._is_compiled,
            "whole_step_graph": self._wants_graph,
            "fused_optimizer": self._is_fused,
            "loss_scaler": self._scaler.is_enabled(),
        }

    def release_graphs(self) -> None:
        """Before the processes part: NCCL does not give up a group while a captured graph uses it, and waits for ever.

        The device must have done everything.
        """
        for captured in self._captures.values():
            captured.graph.reset()
        self._captures.clear()

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, for a checkpoint."""
        return {
            "model": self._bare.state_dict(),
            "optimizer": read_state(self.optimizer),
            "scaler": self._scaler.state_dict(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Into the tensors that are there: a captured graph uses these and no others."""
        self._bare.load_state_dict(state["model"])
        saved = state.get("optimizer")
        if saved is None:  # an older checkpoint, of which SGD was the only optimizer
            saved = [{} if momentum is None else {"momentum_buffer": momentum} for momentum in state["momenta"]]
        load_state(self.optimizer, self._optimizer_facts, saved, is_fused=self._is_fused)
        self._load_scaler(state["scaler"])

    # -- inside --------------------------------------------------------------------------------------------------------

    def _step(self, batch: Batch) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._compute_loss(batch)
        self._scaler.scale(loss).backward()
        clip_norm = self._optimizer_facts.clip_norm
        if clip_norm is not None:
            self._scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self._model.parameters(), clip_norm)
        self._scaler.step(self.optimizer)
        self._scaler.update()
        return loss.detach()

    def _plain_loss(self, batch: Batch) -> Tensor:
        with self._precision.autocast():
            return self._workload.compute_loss(self._model, batch)

    def _compile(self) -> Callable[[Batch], Tensor]:
        configure_compiler()
        compiled: Callable[[Batch], Tensor] = self._compiled(self._plain_loss)
        return compiled

    def _compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return torch.compile(function, dynamic=False, options=compiler_options(self._uses))

    def compile_share(self, batch: Batch, *, claims: Path, is_first: bool) -> None:
        """One step in which only a share of the parts is compiled; the first process has what is outside of parts."""
        if not is_first:
            self._compute_loss = self._plain_loss
        with compiling(CompileShare(claims=claims, compile=self._compiled)):
            self._step(batch)

    def _capture(self, batch: Batch) -> None:
        static = _pytree.tree_map_only(Tensor, Tensor.clone, batch)
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # They never run at the same time, so all graphs can work in the same memory.
        pool = next((other.graph.pool() for other in self._captures.values()), None)
        # On the stream that warmed up: gradients accumulate on the stream that first saw them.
        # Thread-local: the loaders' threads allocate and copy meanwhile, which must not affect the capture.
        stream = torch.cuda.current_stream()
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            loss = self._step(static)
        self._captures[_shapes_of(batch)] = _Captured(graph=graph, static=static, source=batch, loss=loss)
        self.replay_bytes = _count_free_bytes(graph)

    def _state_tensors(self) -> list[Tensor]:
        buffers = [tensor for state in read_state(self.optimizer) for tensor in state.values()]
        return [*self._model.parameters(), *self._model.buffers(), *buffers]

    def _save_state(self) -> _Saved:
        return _Saved(
            tensors=[tensor.detach().clone() for tensor in self._state_tensors()],
            scaler=self._scaler.state_dict(),
            randomness=read_randomness(self.loss.device),
        )

    def _restore_state(self, saved: _Saved) -> None:
        with torch.no_grad():
            for tensor, value in zip(self._state_tensors(), saved.tensors, strict=True):
                tensor.copy_(value)
        self._load_scaler(saved.scaler)
        set_randomness(saved.randomness, self.loss.device)

    def _load_scaler(self, state: dict[str, Any]) -> None:
        if not self._scaler.is_enabled():
            return
        scale, tracker = self._scaler._scale, self._scaler._growth_tracker
        if scale is None or tracker is None:
            self._scaler.load_state_dict(state)
            return
        # load_state_dict would make new tensors, which a captured graph would not use.
        scale.fill_(state["scale"])
        tracker.fill_(state["_growth_tracker"])


Shapes = tuple[tuple[int, ...], ...]


def read_randomness(device: torch.device) -> list[Tensor]:
    """State of the generators that dropout and sampling draw from."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def set_randomness(states: Sequence[Tensor], device: torch.device) -> None:
    torch.set_rng_state(states[0].cpu())
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1].cpu(), device)


@dataclass(frozen=True, kw_only=True)
class _Saved:
    """All that steps change."""

    tensors: list[Tensor]
    scaler: dict[str, Any]
    randomness: list[Tensor]


@dataclass(kw_only=True)
class _Captured:
    """A step in a CUDA graph, with the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    static: Batch
    source: Batch
    """The batch that is in `static`."""
    loss: Tensor

    def replay(self, batch: Batch) -> None:
        if self.source is not batch:  # a repeated batch is already in the graph's tensors
            for static, new in zip(_pytree.tree_leaves(self.static), _pytree.tree_leaves(batch), strict=True):
                static.copy_(new, non_blocking=True)
            self.source = batch
        self.graph.replay()


def _shapes_of(batch: Batch) -> Shapes:
    return tuple(tuple(leaf.shape) for leaf in _pytree.tree_leaves(batch) if isinstance(leaf, Tensor))


def _count_free_bytes(graph: torch.cuda.CUDAGraph) -> int:
    """Of the graph's own memory pool, which no loader thread uses: replays need it, nothing holds it in between."""
    pool = tuple(graph.pool())
    segments = [found for found in torch.cuda.memory_snapshot() if tuple(found.get("segment_pool_id", ())) == pool]
    return sum(segment["total_size"] - segment["allocated_size"] for segment in segments)
