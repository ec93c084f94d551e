"""What `codex exec --json` prints: moments for whoever watches, and what a turn came to for whoever reads it after."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from resolvent.adapters.agents.codex_refusals import delay_of, status_of, wait_of
from resolvent.adapters.agents.lines import Mapping, Objects, count, mapping, parsed, plain, rows, shown, text
from resolvent.domain.job import Session, Usage
from resolvent.domain.prices import Price, priced
from resolvent.domain.transcript import (
    FileChanged,
    Moment,
    Noticed,
    Retried,
    Said,
    Spent,
    Thought,
    ToolAnswered,
    ToolCalled,
)

MOST_MESSAGE = 12 << 20
MOST_REASON = 4096
MOST_NOTICES = 20
BEGAN = "resolvent.began"
# It asks for a thread by id or by name, and begins a new one for a name it does not know.
THREAD = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
TOOLS = ("command_execution", "file_change", "mcp_tool_call", "collab_tool_call", "web_search")
_RETRY = re.compile(r"Reconnecting\.\.\.(?:\s+(\d{1,6})/\d+)?\s*(.*)", re.S)


def began(session: Session) -> str:
    """The line that is printed before codex prints any: what is told of a thread later holds this already."""
    return json.dumps({"type": BEGAN, "spent": session.spent.model_dump()})


def _before(event: Mapping) -> Usage:
    try:
        return Usage.model_validate(event.get("spent"))
    except ValidationError:
        return Usage()


def used(event: Mapping) -> Usage:
    """What the thread has spent in all, as the end of a turn tells it."""
    usage = mapping(event.get("usage"))
    return Usage(
        input_tokens=count(usage.get("input_tokens")),
        cached_tokens=count(usage.get("cached_input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
    )


class CodexListener:
    """Turns each event into moments; a call whose beginning was never told is told with its end."""

    def __init__(self, price: Price | None) -> None:
        self._price = price
        self._first = True
        self._before = Usage()
        self._delay_s = 0.0
        self._open: set[str] = set()

    def hear(self, line: bytes) -> tuple[Moment, ...]:
        """What one event tells; nothing for a line that is none."""
        event = parsed(line)
        if event is None:
            waits = wait_of(line[:MOST_REASON].decode(errors="replace"))
            self._delay_s = waits[1] if waits else self._delay_s
            return ()
        first, self._first = self._first, False
        match event.get("type"):
            case "item.started" | "item.updated" | "item.completed" as when:
                return self._item(mapping(event.get("item")), when)
            case "turn.completed":
                return (Spent(usage=priced(used(event).beyond(self._before), self._price)),)
            case "turn.failed":
                return _noticed(mapping(event.get("error")).get("message"))
            case "error":
                delay, self._delay_s = self._delay_s, 0.0
                return _retried(text(event.get("message"), MOST_REASON), delay)
            case str(began) if began == BEGAN and first:
                self._before = _before(event)
        return ()

    def _item(self, item: Mapping, when: str) -> tuple[Moment, ...]:
        kind, ended = item.get("type"), when == "item.completed"
        if kind in TOOLS:
            return self._tool(item, ended=ended) if when != "item.updated" else ()
        if kind == "todo_list":
            return _thought(_plan(item)) if not ended else ()
        if not ended:
            return ()
        if kind == "agent_message":
            said = text(item.get("text"))
            return (Said(text=said),) if said else ()
        if kind == "reasoning":
            return _thought(text(item.get("text")))
        return _noticed(item.get("message")) if kind == "error" else ()

    def _tool(self, item: Mapping, *, ended: bool) -> tuple[Moment, ...]:
        call = text(item.get("id"), 200)
        told: list[Moment] = []
        if call not in self._open:
            self._open.add(call)
            told.append(ToolCalled(call=call, tool=_tool_name(item), input=_input(item)))
        if ended:
            self._open.discard(call)
            failed = item.get("status") in ("failed", "declined")
            told.append(ToolAnswered(call=call, output=_output(item), failed=failed))
            if not failed:
                told += _changes(item)
        return tuple(told)


def _tool_name(item: Mapping) -> str:
    match item.get("type"):
        case "command_execution":
            return "exec_command"
        case "file_change":
            return "apply_patch"
        case "mcp_tool_call":
            return ".".join(filter(None, (text(item.get(name), 200) for name in ("server", "tool"))))
        case "collab_tool_call":
            return text(item.get("tool"), 200) or "collab"
    return "web_search"


def _input(item: Mapping) -> str:
    match item.get("type"):
        case "command_execution":
            return text(item.get("command"))
        case "file_change":
            return "\n".join(
                f"{text(row.get('kind'), 20)} {text(row.get('path'), 4096)}" for row in rows(item.get("changes"))
            )
        case "mcp_tool_call":
            return shown(item.get("arguments"))
        case "collab_tool_call":
            return text(item.get("prompt"))
    return text(item.get("query"))


def _output(item: Mapping) -> str:
    match item.get("type"):
        case "command_execution":
            return text(item.get("aggregated_output"))
        case "mcp_tool_call":
            error = mapping(item.get("error")).get("message")
            result = mapping(item.get("result")).get("content")
            texts = [text(row.get("text")) for row in rows(result) if isinstance(row.get("text"), str)]
            return text(error) or "\n".join(texts) or (shown(result) if result else "")
        case "collab_tool_call":
            return shown(item.get("agents_states")) if item.get("agents_states") else ""
    return ""


def _changes(item: Mapping) -> list[Moment]:
    found: list[Moment] = []
    for row in rows(item.get("changes")) if item.get("type") == "file_change" else ():
        path, kind = text(row.get("path"), 4096), row.get("kind")
        if path:
            found.append(FileChanged(path=path, change=kind if kind in ("add", "delete") else "update"))
    return found


def _plan(item: Mapping) -> str:
    return "\n".join(f"{'☑' if row.get('completed') is True else '☐'} {text(row.get('text'), 500)}"
                     for row in rows(item.get("items")))  # fmt: skip


def _thought(words: str) -> tuple[Moment, ...]:
    return (Thought(text=words),) if words else ()


def _noticed(message: object) -> tuple[Moment, ...]:
    said = plain(text(message, MOST_REASON)).strip()
    return (Noticed(text=said),) if said else ()


def _retried(message: str, delay_s: float) -> tuple[Moment, ...]:
    """A retry; any other error is told once more at once, as the end of the turn."""
    found = _RETRY.match(message)
    if found is None:
        return ()
    stated = delay_of(found[2])
    return (
        Retried(
            attempt=int(found[1] or 0),
            status=status_of(found[2]),
            reason=plain(found[2]).strip().removeprefix("(").removesuffix(")"),
            delay_s=delay_s if stated is None else stated,
        ),
    )


@dataclass
class Turn:
    """What the events of one process came to."""

    thread: str = ""
    # Its last word: what it said before it went on to another tool is none.
    message: str = ""
    completed: bool = False
    usage: Usage = field(default_factory=Usage)
    # Why the turn failed, and what it waited for when nothing came any more.
    failure: str = ""
    waiting: str = ""
    notices: tuple[str, ...] = ()

    def take(self, event: Mapping) -> None:
        """Go on with one more event; one that makes no sense changes nothing."""
        match event.get("type"):
            case "thread.started":
                thread = text(event.get("thread_id"), 200)
                self.thread = thread if THREAD.fullmatch(thread) else self.thread
            case "turn.completed":
                self.completed, self.failure, self.waiting, self.usage = True, "", "", used(event)
            case "turn.failed":
                said = text(mapping(event.get("error")).get("message"), MOST_REASON)
                self.completed, self.failure = False, said or "the turn failed"
            case "error":
                said = text(event.get("message"), MOST_REASON)
                retry = _RETRY.match(said)
                self.waiting = retry[2] or "waiting for its model" if retry else self.waiting
            case "item.started" | "item.completed":
                self._take_item(mapping(event.get("item")), ended=event.get("type") == "item.completed")

    def _take_item(self, item: Mapping, *, ended: bool) -> None:
        kind = item.get("type")
        if kind == "error":
            said = plain(text(item.get("message"), MOST_REASON)).strip()
            if said and said not in self.notices and len(self.notices) < MOST_NOTICES:
                self.notices += (said,)
            return
        self.waiting = ""
        if kind == "agent_message" and ended:
            self.message = text(item.get("text"), MOST_MESSAGE)
        # A command left behind may end after the last word: only a new call takes that back.
        elif kind in TOOLS and not ended:
            self.message = ""


def read_turn(output: Path) -> Turn:
    """What a job's output came to; lines that are no events are passed over."""
    turn = Turn()
    for event in Objects(output):
        turn.take(event)
    return turn
