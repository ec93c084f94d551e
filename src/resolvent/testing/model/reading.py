"""Requests of three APIs into one conversation; whatever has another shape than expected is left out, never a crash."""

import json
from typing import Any

from resolvent.testing.model.conversation import Conversation, Item, Kind

_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call")
_RESULTS = ("function_call_output", "custom_tool_call_output", "tool_search_output")
_ROLES: dict[str, Kind] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


def table(value: Any) -> dict[str, Any]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def tables(value: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def words(value: Any) -> str:
    """The text in a text, a part, or a list of parts, as all of these APIs nest it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text for text in (words(one) for one in value) if text)
    if isinstance(value, dict):
        if isinstance(value.get("text"), str):
            return str(value["text"])
        if "content" in value:
            return words(value["content"])
        return f"[{value['type']}]" if isinstance(value.get("type"), str) else ""
    return ""


def from_messages(body: dict[str, Any]) -> Conversation:
    """Anthropic Messages."""
    items: list[Item] = []
    for message in tables(body.get("messages")):
        # Claude puts turns of the system (its environment, reminders) among the messages too.
        kind = _ROLES.get(str(message.get("role")), "user")
        if isinstance(message.get("content"), str):
            items.append(Item(kind, message["content"]))
        for part in tables(message.get("content")):
            match part.get("type"):
                case "tool_use":
                    items.append(Item("call", json.dumps(part.get("input")), str(part.get("name", ""))))
                case "tool_result":
                    items.append(Item("result", words(part.get("content"))))
                case "text":
                    items.append(Item(kind, words(part)))
    form = table(table(body.get("output_config")).get("format")) or table(body.get("output_format"))
    offered = tables(body.get("tools"))
    return Conversation(
        api="messages",
        model=str(body.get("model", "")),
        system=_system(words(body.get("system")), items),
        items=_spoken(items),
        tools=tuple(str(tool.get("name", "")) for tool in offered),
        stream=body.get("stream") is True,
        schema=table(form.get("schema")) or None,
        offered=tuple(offered),
    )


def from_responses(body: dict[str, Any]) -> Conversation:
    """OpenAI Responses, with what codex adds to it: tools in the input, and namespaces of tools."""
    given = body.get("input")
    entries = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else tables(given)
    items: list[Item] = []
    offered = tables(body.get("tools"))
    for entry in entries:
        kind = entry.get("type", "message")
        if kind == "message":
            items.append(Item(_ROLES.get(str(entry.get("role")), "user"), words(entry.get("content"))))
        elif kind in _CALLS:
            called = entry.get("arguments") or entry.get("input") or entry.get("action")
            items.append(Item("call", called if isinstance(called, str) else json.dumps(called), _full_name(entry)))
        elif kind in _RESULTS:
            output = entry.get("output", entry.get("tools"))
            items.append(Item("result", words(output) or json.dumps(output)))
        elif kind == "additional_tools":
            offered += tables(entry.get("tools"))
    names: list[str] = []
    for tool in offered:
        inner = tables(tool.get("tools")) if tool.get("type") == "namespace" else []
        names += [f"{tool.get('name')}.{one.get('name')}" for one in inner]
        names += [] if inner else [str(tool.get("name") or tool.get("type", ""))]
    return Conversation(
        api="responses",
        model=str(body.get("model", "")),
        system=_system(words(body.get("instructions")), items),
        items=_spoken(items),
        tools=tuple(names),
        stream=body.get("stream") is True,
        schema=table(table(table(body.get("text")).get("format")).get("schema")) or None,
        offered=tuple(offered),
    )


def from_chat(body: dict[str, Any]) -> Conversation:
    """OpenAI Chat Completions."""
    items: list[Item] = []
    for message in tables(body.get("messages")):
        text = words(message.get("content"))
        if message.get("role") == "tool":
            items.append(Item("result", text))
            continue
        if text:
            items.append(Item(_ROLES.get(str(message.get("role")), "user"), text))
        for call in tables(message.get("tool_calls")):
            function = table(call.get("function"))
            items.append(Item("call", words(function.get("arguments")), str(function.get("name", ""))))
    offered = [table(tool.get("function")) for tool in tables(body.get("tools"))]
    form = table(table(body.get("response_format")).get("json_schema"))
    return Conversation(
        api="chat",
        model=str(body.get("model", "")),
        system=_system("", items),
        items=_spoken(items),
        tools=tuple(str(tool.get("name", "")) for tool in offered),
        stream=body.get("stream") is True,
        schema=table(form.get("schema")) or None,
        offered=tuple(offered),
    )


READERS = {"messages": from_messages, "responses": from_responses, "chat": from_chat}


def _full_name(entry: dict[str, Any]) -> str:
    name = str(entry.get("name", entry.get("type", "")))
    return f"{entry['namespace']}.{name}" if entry.get("namespace") else name


def _system(first: str, items: list[Item]) -> str:
    return "\n".join([first, *(item.text for item in items if item.kind == "system")])


def _spoken(items: list[Item]) -> tuple[Item, ...]:
    return tuple(item for item in items if item.kind != "system")
