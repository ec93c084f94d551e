"""Replies as Anthropic Messages gives them, whole and as a stream of events."""

import json
from typing import Any

from resolvent.testing.model.conversation import Conversation
from resolvent.testing.model.lowering import Call, Lowered, Think
from resolvent.testing.model.steps import Counts
from resolvent.testing.model.wire import Event, Reply, pieces

_SIGNATURE = "c2NyaXB0ZWQ="


def reply(conversation: Conversation, blocks: list[Lowered], usage: Counts) -> Reply:
    """One message of the assistant."""
    content = [_content(conversation, number, block) for number, block in enumerate(blocks)]
    stop = "tool_use" if any(isinstance(block, Call) for block in blocks) else "end_turn"
    counted = {
        # What came from the cache is counted apart here.
        "input_tokens": max(0, usage.taken_in - usage.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.given_out,
    }
    message = {
        "id": conversation.named("msg"),
        "type": "message",
        "role": "assistant",
        "model": conversation.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": counted,
    }
    opened = message | {"content": [], "stop_reason": None, "usage": counted | {"output_tokens": 1}}
    events = [_event("message_start", message=opened)]
    for number, part in enumerate(content):
        events += _streamed(number, part)
    events.append(_event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=counted))
    return Reply(message, (*events, _event("message_stop")))


def _content(conversation: Conversation, number: int, block: Lowered) -> dict[str, Any]:
    if isinstance(block, Call):
        given = block.input if isinstance(block.input, dict) else {"input": block.input}
        return {"type": "tool_use", "id": conversation.named("toolu", number), "name": block.name, "input": given}
    if isinstance(block, Think):
        return {"type": "thinking", "thinking": block.text, "signature": _SIGNATURE}
    return {"type": "text", "text": block.text}


def _streamed(number: int, part: dict[str, Any]) -> list[Event]:
    deltas: list[dict[str, Any]]
    if part["type"] == "text":
        opened = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(part["text"])]
    elif part["type"] == "thinking":
        opened = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(part["thinking"])]
        deltas.append({"type": "signature_delta", "signature": part["signature"]})
    else:
        opened = part | {"input": {}}
        whole = json.dumps(part["input"])
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(whole)]
    return [
        _event("content_block_start", index=number, content_block=opened),
        *(_event("content_block_delta", index=number, delta=delta) for delta in deltas),
        _event("content_block_stop", index=number),
    ]


def _event(kind: str, **fields: Any) -> Event:
    return kind, {"type": kind, **fields}
