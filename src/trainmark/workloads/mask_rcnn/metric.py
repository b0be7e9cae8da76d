"""COCO's average precision of boxes and masks, computed by COCO's own tools."""

from __future__ import annotations

import contextlib
import io
from typing import Any, Protocol


class Annotations(Protocol):
    num_classes: int

    def of_images(self, image_ids: set[int]) -> list[dict[str, Any]]: ...


def summarise(scores: list[dict[str, Any]], truth: Annotations) -> dict[str, float]:
    """AP over IoU .5 to .95, and AP at .5, between 0 and 1, over the images that were evaluated.

    An image that could not be read has no item, and its objects do not count as missed; the run's warnings name it. A
    repeated image counts once. Empty if there is no object to find.
    """
    items = {item["image_id"]: item for item in reversed(scores)}  # the first of each
    annotations = truth.of_images(set(items))
    if all(annotation["iscrowd"] for annotation in annotations):
        return {}
    metrics: dict[str, float] = {}
    for prefix, kind in (("box", "bbox"), ("mask", "segm")):
        metrics[f"{prefix}_ap"], metrics[f"{prefix}_ap50"] = _evaluate(items, annotations, truth.num_classes, kind)
    return metrics


def _evaluate(
    items: dict[int, dict[str, Any]], annotations: list[dict[str, Any]], num_classes: int, kind: str
) -> tuple[float, float]:
    from pycocotools.cocoeval import COCOeval

    sizes = {image_id: item["size"] for image_id, item in sorted(items.items())}
    images = [{"id": image_id, "height": height, "width": width} for image_id, (height, width) in sizes.items()]
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its progress, and stdout is for results
        expected = _as_coco(images, annotations, num_classes)
        found = _as_coco(images, _detections(items, kind), num_classes)
        evaluation = COCOeval(expected, found, kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[0]), float(evaluation.stats[1])


def _detections(items: dict[int, dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    from pycocotools import mask as coco_mask

    found: list[dict[str, Any]] = []
    for image_id, item in items.items():
        columns = (item["boxes"], item["scores"], item["labels"], item["masks"])
        for box, score, label, counts in zip(*columns, strict=True):
            runs = {"size": item["size"], "counts": counts}
            found.append(
                {
                    "id": len(found) + 1,
                    "image_id": image_id,
                    "category_id": label,
                    "bbox": box,
                    "segmentation": runs,
                    "area": box[2] * box[3] if kind == "bbox" else float(coco_mask.area(runs)),
                    "iscrowd": 0,
                    "score": score,
                }
            )
    return found


def _as_coco(images: list[dict[str, Any]], annotations: list[dict[str, Any]], num_classes: int) -> Any:
    from pycocotools.coco import COCO

    coco = COCO()
    categories = [{"id": label} for label in range(1, num_classes + 1)]
    # Copies: the evaluation writes into the annotations, and they are used for boxes and for masks.
    copies = [dict(annotation) for annotation in annotations]
    coco.dataset = {"images": images, "annotations": copies, "categories": categories}
    coco.createIndex()
    return coco
