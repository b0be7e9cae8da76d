"""`trainmark parity`: the same weights and batches through several frameworks, and what that proves.

PyTorch's reference recipe is what the others are measured against. Each framework runs in its own processes.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from trainmark.analyse.parity import Observed, check_mathematics, check_rounding, worse_of
from trainmark.analyse.parity_command import deciding_variables
from trainmark.analyse.parity_trajectory import check_trajectory
from trainmark.analyse.parity_work import Work, check_work
from trainmark.controller.parity_code import CodeWatch, read_check_code
from trainmark.controller.parity_inputs import (
    make_batches,
    nudge_weights,
    settle_weights,
    shuffled_orders,
    steady_rates,
    unequal_rates,
)
from trainmark.controller.parity_options import ParityOptions, check_options, precisions_of
from trainmark.controller.parity_probes import Prober
from trainmark.datasets.formats import MakeRequest, find_format, make_dataset
from trainmark.frameworks import frameworks
from trainmark.runfolder.document import WorkloadCell
from trainmark.runfolder.parity import (
    MATHEMATICS,
    ROUNDING,
    STAGES,
    TRAJECTORY,
    WORK,
    Contestant,
    PairRecord,
    ParityRecord,
    StageRecord,
)
from trainmark.weights.neutral import Weights
from trainmark.worker.environment import recorded_variables
from trainmark.worker.probe import EpochRequest, EpochResult, ProbeRequest, ProbeResult, digest, leaves, spread_arrays
from trainmark.worker.training_code import read_training_code
from trainmark.workloads.card import Card
from trainmark.workloads.data import Arrays

BATCH_SIZE = 4
"""Enough that the order of the samples changes the rounding: a sum of two has none."""
_NUM_BATCHES = 16
"""For rounding: on some of them, no sign of an activation depends on it."""
_ROUNDING_RATE = 1024.0
"""So large that a change of weights is large against their own last digits, also where gradients are small: with a rate
of 1 most changes of some tensors were rounded to zero. What comes after the step does not count."""
_NUM_TRAINED = 5
"""Of these batches, for the stages that train several steps."""
_NUM_OTHER_RUNS = 3
"""Trainings of each framework besides the reference."""
_MOST_VALUES = 4096
"""Of a tensor whose rounding is measured: enough for its size, and the tensors of a hundred runs fit into memory."""
_STATISTICS = ("running_mean", "running_var")
_WORK_PRECISION = "fp32"


def run_parity(options: ParityOptions, prober: Prober) -> ParityRecord:
    card = check_options(options)
    names = [framework for framework, _ in options.contestants]
    watch = CodeWatch()
    for name in names:
        watch.code_of(card.name, name)
    codes, own_code = {name: read_training_code(card.name, name) for name in names}, read_check_code(names)
    batches = make_batches(card, size=options.size, batch_size=BATCH_SIZE, num_batches=_NUM_BATCHES, seed=options.seed)
    check = _Check(options, card, prober, batches)
    stages: dict[tuple[int, int], list[StageRecord]] = {pair: [] for pair in check.pairs}
    for stage in (stage for stage in STAGES if stage in options.stages):
        for pair, records in check.run(stage).items():
            stages[pair] += [_with_length(record, options) for record in records]
    for name in names:
        watch.refuse_change(card.name, name)
    sides = [_with_code(check.contestant(side), codes) for side in range(len(options.contestants))]
    variables = recorded_variables(os.environ, names)
    return ParityRecord(
        workload=card.name,
        card_version=card.version,
        size=options.size,
        device=options.device,
        seed=options.seed,
        variables={key: value for name in names for key, value in deciding_variables(variables, name).items()},
        code=own_code,
        unix_s=time.time(),
        pairs=tuple(
            PairRecord(one=sides[one], other=sides[other], stages=tuple(found))
            for (one, other), found in stages.items()
        ),
    )


def _with_code(side: Contestant, codes: Mapping[str, str]) -> Contestant:
    """And with the versions of its parts: what a proof holds for."""
    return replace(side, code=codes[side.framework], parts=frameworks().load(side.framework).versions_of_parts())


def _with_length(record: StageRecord, options: ParityOptions) -> StageRecord:
    is_trajectory = record.stage == TRAJECTORY
    return replace(record, steps=options.steps, repeats=options.repeats) if is_trajectory else record


class _Check:
    """The stages of one check; what several of them need is computed once."""

    def __init__(self, options: ParityOptions, card: Card, prober: Prober, batches: Sequence[Arrays]) -> None:
        self._options, self._card, self._prober, self._batches = options, card, prober, batches
        self._sides = options.contestants
        self.pairs = list(itertools.combinations(range(len(self._sides)), 2))
        self._versions: dict[int, str] = {}
        self._weights = self._make_weights()

    def contestant(self, side: int) -> Contestant:
        framework, recipe = self._sides[side]
        return Contestant(framework=framework, recipe=recipe, version=self._versions.get(side, framework))

    def run(self, stage: str) -> Mapping[tuple[int, int], list[StageRecord]]:
        stages = {
            MATHEMATICS: self._mathematics,
            ROUNDING: self._rounding,
            TRAJECTORY: self._trajectory,
            WORK: self._work,
        }
        return stages[stage]()

    # -- stages --------------------------------------------------------------------------------------------------------

    def _mathematics(self) -> dict[tuple[int, int], list[StageRecord]]:
        found = self._probe({side: [self._long_request(side)] for side in range(len(self._sides))})
        observed = [_observe(found[side][0]) for side in range(len(self._sides))]
        return {(one, other): [check_mathematics(observed[one], observed[other])] for one, other in self.pairs}

    def _rounding(self) -> dict[tuple[int, int], list[StageRecord]]:
        before = spread_arrays(self._weights, _MOST_VALUES)
        exact = [_observe_change(result, before) for result in self._probe(self._rounded_requests("fp64"))[0]]
        stages: dict[tuple[int, int], list[StageRecord]] = {pair: [] for pair in self.pairs}
        for precision in self._options.precisions:
            found = self._probe(self._rounded_requests(precision))
            runs = {side: [_observe_change(result, before) for result in results] for side, results in found.items()}
            own = {
                side: check_rounding(exact, runs[0], theirs, precision=precision)
                for side, theirs in runs.items()
                if side
            }
            for one, other in self.pairs:
                if one in runs and other in runs:
                    stages[one, other].append(_of_pair(own, one, other))
        return stages

    def _trajectory(self) -> dict[tuple[int, int], list[StageRecord]]:
        """The reference's own runs serve every pair."""
        repeats = [self._training(0, _WORK_PRECISION, seed) for seed in range(1, self._options.repeats + 1)]
        seeds = range(_NUM_OTHER_RUNS)
        others = {
            side: [self._training(side, _WORK_PRECISION, seed) for seed in seeds] for side in range(1, len(self._sides))
        }
        found = self._probe({0: [self._training(0, "fp64", 0), *repeats], **others})
        exact, *reference = [result.losses for result in found[0]]
        own = {
            side: check_trajectory(
                reference, [result.losses for result in found[side]], exact=exact, precision=_WORK_PRECISION
            )
            for side in others
        }
        return {(one, other): [_of_pair(own, one, other)] for one, other in self.pairs}

    def _work(self) -> dict[tuple[int, int], list[StageRecord]]:
        with tempfile.TemporaryDirectory(prefix="trainmark-parity-") as folder:
            data = Path(folder) / "data"
            _make_data(self._card, data)
            epochs = self._prober.run_epochs([self._epoch_request(side, data) for side in range(len(self._sides))])
        steps = self._probe({side: [self._work_request(side)] for side in range(len(self._sides))})
        work = [_describe_work(steps[side][0], epoch) for side, epoch in enumerate(epochs)]
        facts = {"precision": _WORK_PRECISION, "device": self._options.device}
        return {(a, b): [check_work(work[a], work[b], **facts)] for a, b in self.pairs}

    # -- probes --------------------------------------------------------------------------------------------------------

    def _make_weights(self) -> Weights:
        request = replace(self._request(0, "fp32"), weights=None, batches=(), rates=(), keep_weights_after=(0,))
        [found] = self._prober.run_steps([request])
        return settle_weights(found.weights[0], np.random.default_rng(self._options.seed))

    def _request(
        self, side: int, precision: str, *, batches: Sequence[Arrays] = (), rates: Sequence[float] = ()
    ) -> ProbeRequest:
        framework, recipe = self._sides[side]
        is_exact = precision == "fp64"
        return ProbeRequest(
            workload=self._card.name,
            framework=framework,
            recipe=recipe,
            precision=precision,
            size=self._options.size,
            device="cpu" if is_exact else self._options.device,
            num_classes=self._card.num_classes,
            seed=self._options.seed,
            weights=getattr(self, "_weights", None),
            batches=batches,
            rates=tuple(rates),
            counts_work=False,
        )

    def _probe(self, wanted: Mapping[int, Sequence[ProbeRequest]]) -> dict[int, list[ProbeResult]]:
        """By side. The prober keeps results, so the same request may be sent by several stages."""
        results = iter(self._prober.run_steps([request for requests in wanted.values() for request in requests]))
        found = {side: list(itertools.islice(results, len(requests))) for side, requests in wanted.items()}
        self._versions.update({side: str(own[0].facts["framework"]) for side, own in found.items()})
        return found

    def _long_request(self, side: int) -> ProbeRequest:
        """Three steps in float64."""
        rates = unequal_rates(self._card, batch_size=BATCH_SIZE)
        request = self._request(side, "fp64", batches=self._batches[:_NUM_TRAINED], rates=rates)
        return replace(request, keep_weights_after=(len(rates),))

    def _rounded_requests(self, precision: str) -> dict[int, list[ProbeRequest]]:
        """Of each side that has the precision, a first step on each batch; in float64 of the reference alone."""
        sides = [
            side
            for side, (framework, _) in enumerate(self._sides)
            if (side == 0 if precision == "fp64" else precision in precisions_of(framework, self._options.device))
        ]
        return {side: [self._first_step(side, precision, batch) for batch in self._batches] for side in sides}

    def _first_step(self, side: int, precision: str, batch: Arrays) -> ProbeRequest:
        request = self._request(side, precision, batches=[batch], rates=[_ROUNDING_RATE])
        return replace(request, keep_weights_after=(1,), most_values=_MOST_VALUES)

    def _training(self, side: int, precision: str, seed: int) -> ProbeRequest:
        """Of the stage of trajectories; seed 0 leaves the samples in their order and the weights as they are.

        The order alone is not noise enough: it changes the last digit of sums over a batch, and all else is rounded as
        before. The last digits of the weights change everything that is computed.
        """
        options = self._options
        rates = steady_rates(self._card, batch_size=BATCH_SIZE, num_steps=options.steps)
        orders = shuffled_orders(batch_size=BATCH_SIZE, num_steps=options.steps, seed=options.seed * seed)
        request = self._request(side, precision, batches=self._batches[:_NUM_TRAINED], rates=rates)
        weights = nudge_weights(self._weights, seed) if seed else self._weights
        return replace(request, weights=weights, orders=orders, keeps_first_step=False)

    def _work_request(self, side: int) -> ProbeRequest:
        rate = unequal_rates(self._card, batch_size=BATCH_SIZE)[:1]
        request = self._request(side, _WORK_PRECISION, batches=self._batches[:1], rates=rate)
        return replace(request, keeps_first_step=False, counts_work=True)

    def _epoch_request(self, side: int, data: Path) -> EpochRequest:
        framework, recipe = self._sides[side]
        cell = WorkloadCell(
            workload=self._card.name,
            framework=framework,
            recipe=recipe,
            precision=_WORK_PRECISION,
            size=self._options.size,
            device=self._options.device,
            nodes=1,
            devices_per_node=1,
            batch_size_per_device=_EPOCH_BATCH,
            data=str(data),
            epochs=None,
            lr=None,
            until_target={},
            seed=self._options.seed,
            repeat=1,
        )
        return EpochRequest(cell=cell, num_steps=_EPOCH_STEPS + 1)


_EPOCH_BATCH, _EPOCH_STEPS = 2, 2
"""Two steps are an epoch, and a third one shows the order of the next; one sample is left over in each."""


def _make_data(card: Card, root: Path) -> None:
    """As small as it can be with a sample that fills no batch, which must be left out."""
    options = find_format(card.dataset).options
    num_train, num_val = _EPOCH_BATCH * _EPOCH_STEPS + 1, 3
    wanted = {
        "num_samples": num_train + num_val,
        "num_classes": 2,
        "val_fraction": num_val / (num_train + num_val),
        "seed": 1,
    }
    make_dataset(card.dataset, root, MakeRequest(**{n: v for n, v in wanted.items() if n in options}))  # type: ignore[arg-type]


def _of_pair(own: Mapping[int, StageRecord], one: int, other: int) -> StageRecord:
    """`own`: of each side against the reference, which is side 0."""
    return own[other] if one == 0 else worse_of(own[one], own[other])


def _observe(result: ProbeResult) -> Observed:
    last = result.weights[max(result.weights)] if result.weights else {}
    statistics = {name: array for name, array in last.items() if name.endswith(_STATISTICS)}
    return Observed(
        outputs=result.outputs,
        terms=result.terms,
        gradients=result.gradients,
        weights={name: array for name, array in last.items() if name not in statistics},
        statistics=statistics,
    )


def _observe_change(result: ProbeResult, before: Weights) -> Observed:
    """With the change of the weights instead of the weights: their rounding is small against them, not against it."""
    observed = _observe(result)
    changes = {name: after.astype(np.float64) - before[name] for name, after in observed.weights.items()}
    return replace(observed, weights=changes)


def _describe_work(result: ProbeResult, epoch: EpochResult) -> Work:
    return Work(
        facts=result.facts,
        samples_per_step=int(epoch.facts["samples_per_step"]),
        steps_per_epoch=epoch.facts["steps_per_epoch"],
        rates=epoch.rates,
        batches=[list(leaves(batch)) for batch in epoch.batches],
        digests=[digest(batch) for batch in epoch.batches],
    )
