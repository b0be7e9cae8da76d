"""Whether a document is what docs/reference/schemas says."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema

from trainmark.cli.schemas import make_schemas


@cache
def validators() -> dict[str, jsonschema.Draft202012Validator]:
    return {name: jsonschema.Draft202012Validator(schema) for name, schema in make_schemas().items()}


def check_document(name: str, document: Any) -> None:
    validators()[name].validate(document)
