"""A JSON schema as OpenAI's strict mode takes it: closed objects, every property required, nothing it does not know.

What it cannot say is left out, for every answer is validated by us in any case. What it cannot hold at all, maps with
keys of the answer's own and values of any type, has no strict schema: such an answer is asked for in another way.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

# A model is shown the whole; deeper than this nobody answers, and it is refused there.
DEEPEST = 64
_KEPT = ("type", "enum", "description")


class _Unsayable(ValueError):
    """Strict mode has no words for this."""


def strict(schema: object) -> Schema | None:
    """The same schema in strict words, its references kept; None when there is none for it."""
    if not isinstance(schema, dict):
        return None
    defined = schema.get("$defs")
    definitions = defined if isinstance(defined, dict) else {}
    try:
        top = _closed(_root(schema, definitions), 0)
        found = {name: _closed(one, 0) for name, one in definitions.items()}
    except _Unsayable:
        return None
    if top.get("type") != "object":
        return None
    return top | {"$defs": found} if found else top


def _root(schema: Schema, definitions: Mapping[str, Any]) -> Schema:
    """The outermost schema itself: it may not be a reference, as that of a model that holds itself is."""
    named = schema.get("$ref")
    if not isinstance(named, str):
        return {key: value for key, value in schema.items() if key != "$defs"}
    found = definitions.get(named.removeprefix("#/$defs/"))
    if not isinstance(found, dict) or "$ref" in found:
        raise _Unsayable(named)
    return found


def _closed(schema: object, depth: int) -> Schema:
    if not isinstance(schema, dict) or depth > DEEPEST:
        raise _Unsayable("any value")
    if "$ref" in schema:
        # Nothing may stand beside a reference.
        return {"$ref": schema["$ref"]}
    if "const" in schema:
        return _described({"type": _type_of(schema["const"]), "enum": [schema["const"]]}, schema)
    for one_of in ("anyOf", "oneOf", "allOf"):
        if one_of in schema:
            return _chosen(schema, one_of, depth)
    kept = {key: schema[key] for key in _KEPT if key in schema}
    match schema.get("type"):
        case "object":
            return kept | _object(schema, depth)
        case "array":
            return kept | {"items": _closed(_item(schema), depth + 1)}
        case "string" | "integer" | "number" | "boolean" | "null":
            return kept
    if schema.get("enum") and "type" not in schema:
        return kept | {"type": _type_of(schema["enum"][0])}
    raise _Unsayable("any value")


def _chosen(schema: Schema, how: str, depth: int) -> Schema:
    several = schema[how]
    if not isinstance(several, list) or not several:
        raise _Unsayable(how)
    if len(several) == 1:
        return _described(_closed(several[0], depth + 1), schema)
    if how == "allOf":
        raise _Unsayable("allOf")
    return _described({"anyOf": [_closed(one, depth + 1) for one in several]}, schema)


def _object(schema: Schema, depth: int) -> Schema:
    properties = schema.get("properties", {})
    opened = schema.get("additionalProperties", True)
    # pydantic closes a model that forbids unknown names; one with properties that does not, loses nothing here.
    if schema.get("patternProperties") or isinstance(opened, dict) or (opened is not False and not properties):
        raise _Unsayable("a map")
    given = schema.get("required", ())
    return {
        "properties": {
            name: _closed(one, depth + 1) if name in given else _left_out(one, depth)
            for name, one in properties.items()
        },
        "required": list(properties),
        "additionalProperties": False,
    }


def _left_out(schema: object, depth: int) -> Schema:
    """A property that may be absent is given all the same: its default says nothing, and the model is told so."""
    closed = _closed(schema, depth + 1)
    if not isinstance(schema, dict) or "default" not in schema or "$ref" in closed:
        return closed
    words = f"Give {json.dumps(schema['default'])} when there is nothing to say."
    return closed | {"description": " ".join(filter(None, (schema.get("description"), words)))}


def _item(schema: Schema) -> object:
    """What an array holds; of a tuple, any of its kinds at every place."""
    kinds = schema.get("prefixItems")
    if isinstance(kinds, Sequence) and kinds:
        distinct = [one for at, one in enumerate(kinds) if one not in kinds[:at]]
        return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
    return schema.get("items")


def _described(closed: Schema, schema: Schema) -> Schema:
    if "description" not in schema or "$ref" in closed:
        return closed
    return closed | {"description": schema["description"]}


def _type_of(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case None:
            return "null"
        case str():
            return "string"
    raise _Unsayable("a constant that is no plain value")
