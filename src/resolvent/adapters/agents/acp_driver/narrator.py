"""What an agent reports over ACP, told as moments."""

import json
import math
from collections.abc import Callable
from typing import Any, Literal

from acp import schema

from resolvent.domain.job import Usage
from resolvent.domain.transcript import (
    FileChanged,
    Moment,
    Noticed,
    Said,
    Spent,
    Thought,
    ToolAnswered,
    ToolCalled,
    shortened,
)

# Words are passed on by whole lines, or in pieces when no line ends.
PIECE = 1 << 15
MOST_NOTICES = 20
MOST_OPEN_CALLS = 1000

Words = Literal["text", "thinking"]


class _Call:
    """A tool call as far as it was reported."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.title = ""
        self.kind = ""
        self.input = ""
        self.output = ""
        self.paths: tuple[str, ...] = ()
        self.changed: dict[str, Literal["add", "update", "delete"]] = {}
        self.told = False


class Narrator:
    """Turns the updates of one turn into moments; `before` is what its session had cost when the turn began."""

    def __init__(self, tell: Callable[[Moment], None], *, before: float = 0.0) -> None:
        self.usage = Usage()
        self.notices: list[str] = []
        self._tell = tell
        self._before = before
        self._words: Words = "text"
        self._message: str | None = None
        self._said = ""
        self._calls: dict[str, _Call] = {}

    def hear(self, update: object) -> None:
        """Tell what one update reports; what nobody asks for is passed over."""
        if isinstance(update, schema.AgentMessageChunk | schema.AgentThoughtChunk):
            self._speak(update)
        elif isinstance(update, schema.ToolCallStart | schema.ToolCallProgress):
            self._call(update)
        elif isinstance(update, schema.UsageUpdate) and update.cost and update.cost.currency.upper() == "USD":
            self._cost(update.cost.amount)

    def notice(self, text: str, *, lasting: bool = True) -> None:
        """Something a person may want to know; a lasting one stays with the turn's result."""
        self._pass_on()
        self._tell(Noticed(text=shortened(text)))
        if lasting and len(self.notices) < MOST_NOTICES:
            self.notices.append(text)

    def tokens(self, usage: schema.Usage | None) -> None:
        """What the answer to the prompt says was spent on it."""
        if usage is not None:
            cached = usage.cached_read_tokens or 0
            told = {"input_tokens": usage.input_tokens, "cached_tokens": cached, "output_tokens": usage.output_tokens}
            self._spent(self.usage.model_copy(update=told))

    def close(self) -> None:
        """Pass on what is left of the last words."""
        self._pass_on()

    def _speak(self, chunk: schema.AgentMessageChunk | schema.AgentThoughtChunk) -> None:
        kind: Words = "text" if isinstance(chunk, schema.AgentMessageChunk) else "thinking"
        content = chunk.content
        words = content.text if isinstance(content, schema.TextContentBlock) else f"[{content.type}]"
        if kind != self._words:
            self._pass_on()
        elif self._message is not None and chunk.message_id != self._message and not self._said.endswith("\n"):
            # Another message begins: its words do not go on with the line.
            self._said += "\n" if self._said else ""
        self._words, self._message = kind, chunk.message_id
        self._said += words
        whole = self._said.rfind("\n") + 1
        if whole or len(self._said) >= PIECE:
            rest = self._said[whole:] if whole else ""
            self._said = self._said[:whole] if whole else self._said
            self._pass_on()
            self._said = rest

    def _pass_on(self) -> None:
        said, self._said = self._said, ""
        for start in range(0, len(said), PIECE):
            piece = said[start : start + PIECE]
            self._tell(Said(text=piece) if self._words == "text" else Thought(text=piece))

    def _call(self, update: schema.ToolCallStart | schema.ToolCallProgress) -> None:
        self._pass_on()
        call = self._calls.get(update.tool_call_id)
        if call is None:
            if len(self._calls) >= MOST_OPEN_CALLS:
                # Calls that are never answered are not waited for for ever.
                del self._calls[next(iter(self._calls))]
            call = self._calls[update.tool_call_id] = _Call(shortened(update.tool_call_id, 200))
        _learn(call, update)
        ended = update.status in ("completed", "failed")
        # Some report a call before they know what they pass to it.
        if not call.told and (call.input or ended or update.status == "in_progress"):
            call.told = True
            self._tell(ToolCalled(call=call.id, tool=call.title or call.kind or "tool", input=call.input))
        if ended:
            del self._calls[update.tool_call_id]
            self._tell(ToolAnswered(call=call.id, output=call.output, failed=update.status == "failed"))
            if update.status == "completed":
                for path, change in _changed(call).items():
                    self._tell(FileChanged(path=path, change=change))

    def _cost(self, amount: float) -> None:
        if not math.isfinite(amount) or amount < 0:
            return
        if amount < self._before:
            # It counts from nothing again.
            self._before = 0.0
        self._spent(self.usage.model_copy(update={"usd": amount - self._before}))

    def _spent(self, usage: Usage) -> None:
        if usage != self.usage:
            self.usage = usage
            self._tell(Spent(usage=usage))


def _learn(call: _Call, update: schema.ToolCallStart | schema.ToolCallProgress) -> None:
    call.title = shortened(update.title, 200) if update.title else call.title
    call.kind = update.kind or call.kind
    if update.raw_input:
        call.input = _shown(update.raw_input)
    if update.locations:
        call.paths = tuple(place.path for place in update.locations)
    told: list[str] = []
    for content in update.content or ():
        if isinstance(content, schema.FileEditToolCallContent):
            call.changed[content.path] = "add" if content.old_text is None else "update"
        elif isinstance(content, schema.ContentToolCallContent):
            inner = content.content
            told.append(inner.text if isinstance(inner, schema.TextContentBlock) else f"[{inner.type}]")
    if told or update.raw_output:
        call.output = shortened("\n".join(told)) if told else _shown(update.raw_output)


def _changed(call: _Call) -> dict[str, Literal["add", "update", "delete"]]:
    """What the call says it did to files: by its differences, else by what kind of call it is."""
    if call.changed:
        return call.changed
    kinds: dict[str, Literal["add", "update", "delete"]] = {"edit": "update", "delete": "delete"}
    return dict.fromkeys(call.paths, kinds[call.kind]) if call.kind in kinds else {}


def _shown(value: Any) -> str:
    return shortened(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
