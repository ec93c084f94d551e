"""Replies as OpenAI Chat Completions gives them, whole and as a stream of chunks."""

import json
from typing import Any

from resolvent.testing.model.conversation import Conversation
from resolvent.testing.model.lowering import Call, Lowered, Say
from resolvent.testing.model.steps import Counts
from resolvent.testing.model.wire import Event, Reply, pieces


def reply(conversation: Conversation, blocks: list[Lowered], usage: Counts) -> Reply:
    """One choice with all words and calls; this API has no place for thoughts."""
    text = "\n".join(block.text for block in blocks if isinstance(block, Say))
    calls = [_call(conversation, number, block) for number, block in enumerate(blocks) if isinstance(block, Call)]
    stop = "tool_calls" if calls else "stop"
    head = {"id": conversation.named("chatcmpl"), "created": 1767600000, "model": conversation.model}
    counted = {
        "prompt_tokens": usage.taken_in,
        "completion_tokens": usage.given_out,
        "total_tokens": usage.taken_in + usage.given_out,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }
    message = {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
    choice = {"index": 0, "message": message, "finish_reason": stop}
    whole = head | {"object": "chat.completion", "choices": [choice], "usage": counted}

    def chunk(delta: dict[str, Any], end: str | None = None) -> Event:
        choices = [{"index": 0, "delta": delta, "finish_reason": end}]
        return "", head | {"object": "chat.completion.chunk", "choices": choices}

    events = [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": piece}) for piece in pieces(text)),
        *(chunk({"tool_calls": [{"index": number} | call]}) for number, call in enumerate(calls)),
        chunk({}, stop),
        ("", head | {"object": "chat.completion.chunk", "choices": [], "usage": counted}),
        ("", "[DONE]"),
    ]
    return Reply(whole, tuple(events))


def _call(conversation: Conversation, number: int, block: Call) -> dict[str, Any]:
    given = block.input if isinstance(block.input, str) else json.dumps(block.input)
    function = {"name": block.name, "arguments": given}
    return {"id": conversation.named("call", number), "type": "function", "function": function}
