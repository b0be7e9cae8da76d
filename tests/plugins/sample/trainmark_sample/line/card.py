from __future__ import annotations

from trainmark.workloads.card import Card, Schedule, Sgd, Size, Target

CARD = Card(
    name="sample_line",
    title="Straight line",
    task="regression",
    unit="points",
    frameworks=("sample",),
    recipes=("reference",),
    sizes={"full": Size(flops_per_sample=12.0, batch_size=200)},
    num_parameters=2,
    num_classes=1,
    num_train_samples=10_000,
    schedule=Schedule(kind="cosine", base_lr=0.1, base_batch=None, epochs=1),
    optimizer=Sgd(momentum=0.0, weight_decay=0.0),
    targets=(Target(metric="fit", value=0.9),),
    dataset="sample-points",
    source="a test of trainmark",
)
