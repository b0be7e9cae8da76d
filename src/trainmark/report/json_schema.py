"""JSON Schema from types: dataclasses, typed dictionaries, lists, unions and literals."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    Path: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
}


def schema_of(kind: Any, *, title: str) -> Schema:
    """With a definition for each named type. Fields that a later version adds are allowed."""
    definitions: dict[str, Schema] = {}
    found = _describe(kind, definitions)
    return {"$schema": DIALECT, "title": title, **found, "$defs": dict(sorted(definitions.items()))}


def _describe(kind: Any, definitions: dict[str, Schema]) -> Schema:
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if is_typeddict(kind) or is_dataclass(kind):
        name = getattr(kind, "__name__", str(kind))
        if name not in definitions:
            definitions[name] = {}  # before its fields: a type may contain itself
            definitions[name] = _describe_fields(kind, definitions)
        return {"$ref": f"#/$defs/{name}"}
    return _describe_generic(kind, definitions)


def _describe_generic(kind: Any, definitions: dict[str, Schema]) -> Schema:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_describe(part, definitions) for part in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple and len(arguments) != 2 and Ellipsis not in arguments:
        return {"type": "array", "prefixItems": [_describe(part, definitions) for part in arguments]}
    if origin in (list, tuple, frozenset) or (isinstance(origin, type) and issubclass(origin, list | tuple)):
        parts = [part for part in arguments if part is not Ellipsis]
        is_pair = origin is tuple and Ellipsis not in arguments
        limits = {"minItems": len(parts), "maxItems": len(parts)} if is_pair else {}
        return {"type": "array", "items": _describe(parts[0], definitions), **limits}
    if isinstance(kind, type) and issubclass(kind, str):
        return {"type": "string"}
    name = getattr(origin or kind, "__name__", "")
    if name in ("dict", "Mapping"):
        return {"type": "object", "additionalProperties": _describe(arguments[1], definitions) if arguments else {}}
    if name in ("list", "tuple", "Sequence"):
        return {"type": "array", "items": _describe(arguments[0], definitions) if arguments else {}}
    raise TypeError(f"no JSON Schema for {kind}")


def _describe_fields(kind: Any, definitions: dict[str, Schema]) -> Schema:
    hints = get_type_hints(kind, include_extras=True)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else list(hints)
    optional = {name for name in names if get_origin(hints[name]) is NotRequired}
    optional |= {name for name in names if name not in getattr(kind, "__required_keys__", names)}
    inner = {
        name: get_args(hints[name])[0] if get_origin(hints[name]) in (NotRequired, Required) else hints[name]
        for name in names
    }
    return {
        "type": "object",
        "properties": {name: _describe(part, definitions) for name, part in inner.items()},
        "required": [name for name in names if name not in optional],
    }
