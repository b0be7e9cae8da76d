"""What a path tells of a log, and what it must not be taken to tell."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from trainmark.logs.facts import resolve
from trainmark.logs.paths import facts_of_path
from trainmark.logs.record import Claim, Facts


@pytest.mark.parametrize("path", ["efficientnet_b7.log", "vit_b16_gpu8.log", "mask_rcnn_R_50_C4_1x.log"])
def test_a_size_of_a_model_is_no_batch_and_no_count(path: str) -> None:
    facts = facts_of_path(PurePath(path))
    assert (facts.batch_size_per_device, facts.devices) in ((None, None), (None, 8))


@pytest.mark.parametrize(
    "path",
    [
        "hrnet_w48_bs2_fp32.log",
        "hrnet/hrnetw32.log",
        "HRNet-W48.log",
        "fcn_hr48_512x1024.log",
        "ocrnet_hr18.log",
        "faster_rcnn_resnet50_fpn.log",
        "resnet50/retinanet_r50_fpn.log",
        "fpn_r50.log",
        "resnet500.log",
        "resnet50/resnet101.log",
        "wide_resnet50_2.log",
        "cascade_mask_rcnn_swin.log",
        "mask_rcnn/mask_rcnn_swin.log",
        "mask_rcnn_r101_fpn_1x.log",
        "swin_transformer.log",
        "tsm_r101.log",
        "/home/c3/hrnet-study/bert_large.log",
    ],
)
def test_another_model_is_none_of_our_workloads(path: str) -> None:
    facts = facts_of_path(PurePath(path))
    assert facts.workload is None
    assert facts.model not in ("HRNet-W18", "ResNet-50", "Mask R-CNN", "Transformer", "TSM")


@pytest.mark.parametrize(
    ("path", "workload"),
    [
        ("hrnet_c32_fp16.log", "hrnet_w18"),
        ("fcn_hrnetw18_bs8.log", "hrnet_w18"),
        ("fcn_hr18_512x1024_80k_cityscapes.log", "hrnet_w18"),
        ("HRNet_W18/log/GPUx8.log", "hrnet_w18"),
        ("mask_rcnn_r50_fpn_1x_coco.log", "mask_rcnn"),
        ("MaskRCNN/logs/tf_gpu1.txt", "mask_rcnn"),
        ("tsm_r50_1x1x8.log", "tsm"),
        ("ResNet50V1.5/logs/gpu8.txt", "resnet50"),
        ("4n8g/r50_b128_fp32_3.log", "resnet50"),
        ("rn50/resnet_8gpu.log", "resnet50"),
    ],
)
def test_our_own_are_known_by_their_usual_names(path: str, workload: str) -> None:
    assert facts_of_path(PurePath(path)).workload == workload


def test_the_model_that_the_log_names_is_not_given_the_workload_of_its_folder() -> None:
    path = facts_of_path(PurePath("resnet50/GPUx8.log"))
    for model, workload in (("resnet101", None), ("retinanet_r50_fpn", None), ("resnet50", "resnet50")):
        claims = {"model": [Claim(name="model", value=model, strength=1, text="")]}
        assert resolve(claims, path, Facts(), None).facts.workload == workload


@pytest.mark.parametrize(
    ("path", "nodes", "devices"),
    [
        ("/home/c3/run.log", None, None),
        ("exp_c4/hrnet_w48.log", None, None),
        ("exp_n2_c4/run.log", None, None),
        ("logs/hrnet_c32_fp16.log", None, 32),
        ("runs/n4_c8.log", 4, 32),
        ("runs/N4C8_log", 4, 32),
        ("N4C8/run.log", 4, 32),
    ],
)
def test_cards_are_counted_by_the_file_not_by_its_folders(path: str, nodes: int | None, devices: int | None) -> None:
    facts = facts_of_path(PurePath(path))
    assert (facts.nodes, facts.devices) == (nodes, devices)
