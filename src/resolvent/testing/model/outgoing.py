"""What is sent back for a request: a reply, a refusal, or something broken."""

import json
from dataclasses import dataclass, field
from typing import Any

from resolvent.testing.model import chat, messages, responses
from resolvent.testing.model.conversation import Api, Conversation
from resolvent.testing.model.faults import TOO_LONG, TOO_LONG_OPENAI, refusal
from resolvent.testing.model.lowering import Say, lowered
from resolvent.testing.model.steps import Fault, Step
from resolvent.testing.model.wire import Event, Reply, encoded

_WRITERS = {"messages": messages.reply, "responses": responses.reply, "chat": chat.reply}
_EVENTS = "text/event-stream"
_NO_JSON = b"upstream connect error or disconnect/reset before headers"
_NO_TEXT = bytes(range(128, 256)) * 8
_HTML = b"<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>"


@dataclass(frozen=True)
class Outgoing:
    """Bytes to send; streamed ones part by part, and `ending` says what comes after the last."""

    status: int
    parts: tuple[bytes, ...]
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    streamed: bool = False
    # whole: in good order; cut: the connection is closed; hang: it stays open in silence; mute: closed without a word.
    ending: str = "whole"


def outgoing(conversation: Conversation, step: Step, struck: Fault | None) -> Outgoing:
    """The reply of this step, or what strikes in its place."""
    if struck and struck.name in ("fail", "limit"):
        if struck.type in TOO_LONG and conversation.stream and conversation.api == "responses":
            # This API says it in a stream that began well.
            return _stream(responses.failed(conversation, "context_length_exceeded", TOO_LONG_OPENAI))
        return refused(conversation.api, struck)
    blocks = [lowered(conversation, block) for block in step.blocks] or [Say("")]
    reply = _WRITERS[conversation.api](conversation, blocks, step.usage)
    if struck:
        return _broken(struck, reply, stream=conversation.stream)
    return _stream(reply.events) if conversation.stream else whole(200, reply.whole)


def refused(api: Api, fault: Fault) -> Outgoing:
    """A refusal in the words of the API."""
    said = refusal(api, fault)
    return whole(said.status, said.body, said.headers)


def whole(status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> Outgoing:
    """An object, in one piece."""
    return Outgoing(status, (json.dumps(body).encode(),), headers=headers or {})


def _stream(events: tuple[Event, ...], *, ending: str = "whole") -> Outgoing:
    return Outgoing(200, tuple(encoded(event) for event in events), kind=_EVENTS, streamed=True, ending=ending)


def _broken(struck: Fault, reply: Reply, *, stream: bool) -> Outgoing:
    half = reply.events[: max(1, len(reply.events) // 2)]
    if struck.name == "hang":
        return _stream((), ending="hang") if stream else Outgoing(200, (), streamed=True, ending="hang")
    if struck.name == "cut":
        return _stream(half, ending="cut") if stream else Outgoing(0, (), ending="mute")
    return _malformed(struck.kind, reply, stream=stream)


def _malformed(how: str, reply: Reply, *, stream: bool) -> Outgoing:
    if how == "html":
        return Outgoing(200, (_HTML,), kind="text/html")
    if not stream:
        cut_short = json.dumps(reply.whole).encode()[:-20]
        return Outgoing(200, ({"bytes": _NO_TEXT, "event": cut_short}.get(how, _NO_JSON),))
    if how == "event":
        begun = tuple(encoded(event) for event in reply.events[: max(1, len(reply.events) // 2)])
        name, content = reply.events[len(reply.events) // 2]
        broken = encoded((name, json.dumps(content)[:-5]))
        return Outgoing(200, (*begun, broken), kind=_EVENTS, streamed=True)
    if how == "bytes":
        return Outgoing(200, (_NO_TEXT,), kind=_EVENTS, streamed=True)
    return Outgoing(200, (b"data: " + _NO_JSON + b"\n\n",), kind=_EVENTS, streamed=True)
