"""What goes over the wire: a reply whole or in events, and long texts in pieces."""

import json
from dataclasses import dataclass
from typing import Any

# The name of an event, where its API names them, and what it holds.
Event = tuple[str, dict[str, Any] | str]
_FEW = 400


@dataclass(frozen=True)
class Reply:
    """One reply, for clients that want it whole and for those that want it streamed."""

    whole: dict[str, Any]
    events: tuple[Event, ...]


def encoded(event: Event) -> bytes:
    """One server-sent event."""
    name, content = event
    payload = content if isinstance(content, str) else json.dumps(content)
    return f"{f'event: {name}' + chr(10) if name else ''}data: {payload}\n\n".encode()


def pieces(text: str) -> list[str]:
    """The text in pieces as a model gives it, small ones, but never more than a few hundred."""
    size = max(24, len(text) // _FEW + 1)
    return [text[at : at + size] for at in range(0, len(text), size)]
