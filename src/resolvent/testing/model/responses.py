"""Replies as OpenAI Responses gives them, whole and as a stream of events."""

import json
import re
from typing import Any

from resolvent.testing.model.conversation import Conversation
from resolvent.testing.model.lowering import Call, Lowered, Think
from resolvent.testing.model.steps import Counts
from resolvent.testing.model.wire import Event, Reply, pieces

_FROM_SERVER = re.compile(r"(mcp__.+)__(.+)")


def reply(conversation: Conversation, blocks: list[Lowered], usage: Counts) -> Reply:
    """One response with an output item for each block."""
    output = [_item(conversation, number, block) for number, block in enumerate(blocks)]
    response = envelope(conversation) | {
        "status": "completed",
        "output": output,
        "usage": {
            "input_tokens": usage.taken_in,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.given_out,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.taken_in + usage.given_out,
        },
    }
    events: list[tuple[str, dict[str, Any]]] = [("response.created", {"response": envelope(conversation)})]
    for number, item in enumerate(output):
        events += _streamed(number, item)
    events.append(("response.completed", {"response": response}))
    return Reply(response, numbered(events))


def failed(conversation: Conversation, code: str, message: str) -> tuple[Event, ...]:
    """A stream that began well and says that it cannot be done."""
    wrong = envelope(conversation) | {"status": "failed", "error": {"code": code, "message": message}}
    begun = ("response.created", {"response": envelope(conversation)})
    return numbered([begun, ("response.failed", {"response": wrong})])


def envelope(conversation: Conversation) -> dict[str, Any]:
    """A response that has just begun."""
    return {
        "id": conversation.named("resp"),
        "object": "response",
        "created_at": 1767600000,
        "status": "in_progress",
        "model": conversation.model,
        "output": [],
        "usage": None,
        "error": None,
        "parallel_tool_calls": True,
    }


def numbered(events: list[tuple[str, dict[str, Any]]]) -> tuple[Event, ...]:
    """Every event says what it is and which one it is."""
    return tuple(
        (kind, {"type": kind, "sequence_number": number, **fields}) for number, (kind, fields) in enumerate(events)
    )


def _item(conversation: Conversation, number: int, block: Lowered) -> dict[str, Any]:
    if isinstance(block, Think):
        summary = [{"type": "summary_text", "text": block.text}]
        return {
            "type": "reasoning",
            "id": conversation.named("rs", number),
            "summary": summary,
            "encrypted_content": None,
        }
    if not isinstance(block, Call):
        content = [{"type": "output_text", "text": block.text, "annotations": []}]
        return {
            "type": "message",
            "id": conversation.named("msg", number),
            "status": "completed",
            "role": "assistant",
            "content": content,
        }
    return _call(conversation, number, block)


def _call(conversation: Conversation, number: int, block: Call) -> dict[str, Any]:
    call = {"status": "completed", "call_id": conversation.named("call", number), "name": block.name}
    if isinstance(block.input, str):
        call |= {"type": "custom_tool_call", "id": conversation.named("ctc", number), "input": block.input}
    else:
        call |= {"type": "function_call", "id": conversation.named("fc", number), "arguments": json.dumps(block.input)}
    from_server = _FROM_SERVER.fullmatch(block.name)
    if "." in block.name:
        call["namespace"], _, call["name"] = block.name.rpartition(".")
    elif from_server and block.name not in conversation.tools:
        # Codex knows tools of MCP servers that it has not shown yet.
        call["namespace"], call["name"] = from_server.groups()
    return call


def _streamed(number: int, item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    begun = item | ({"status": "in_progress"} if "status" in item else {})
    deltas: list[tuple[str, dict[str, Any]]] = []
    where = {"item_id": item["id"], "output_index": number}
    if item["type"] == "message":
        begun |= {"content": []}
        deltas = [
            ("response.output_text.delta", where | {"content_index": 0, "delta": piece})
            for piece in pieces(item["content"][0]["text"])
        ]
    elif item["type"] == "reasoning":
        delta = {"summary_index": 0, "delta": item["summary"][0]["text"]}
        deltas = [("response.reasoning_summary_text.delta", where | delta)]
    return [
        ("response.output_item.added", {"output_index": number, "item": begun}),
        *deltas,
        ("response.output_item.done", {"output_index": number, "item": item}),
    ]
