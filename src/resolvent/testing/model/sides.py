"""Housekeeping of the programs: titles, summaries and routers, which must not take a step of a scenario."""

import json
from typing import Any

from resolvent.testing.model.conversation import Conversation
from resolvent.testing.model.reading import table
from resolvent.testing.model.steps import Step

SIDE = "scripted side reply"


def is_side(conversation: Conversation) -> bool:
    """No tools are offered, or only one to answer with."""
    return not conversation.tools or conversation.tools == ("respond_in_schema",)


def side_answer(conversation: Conversation) -> Step:
    """A few words, or the smallest value that fits the schema."""
    text = SIDE if conversation.schema is None else json.dumps(smallest(conversation.schema))
    return Step(({"text": text},))


def smallest(schema: dict[str, Any]) -> Any:
    """The smallest value that fits an ordinary JSON schema."""
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind or "object"
    if kind == "object":
        return {name: smallest(table(part)) for name, part in table(schema.get("properties")).items()}
    return {"array": [], "string": SIDE, "integer": 1, "number": 1, "boolean": True}.get(str(kind))
