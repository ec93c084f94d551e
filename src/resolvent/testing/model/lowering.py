"""Neutral blocks into what this agent understands: its own tools, by the schemas in its request."""

import json
import re
import shlex
from dataclasses import dataclass
from typing import Any

from resolvent.testing.model.conversation import Conversation
from resolvent.testing.model.reading import table
from resolvent.testing.model.steps import Block

SHELLS = (
    "Bash",
    "bash",
    "exec_command",
    "shell_command",
    "shell",
    "local_shell",
    "run_shell_command",
    "developer__shell",
    "terminal",
    "execute_bash",
)
_READS = ("Read", "read", "read_file", "ReadFile")
_WRITES = ("Write", "write", "write_file", "WriteFile")
_EDITS = ("Edit", "edit", "replace", "edit_file")
_PATH = ("file_path", "filePath", "path", "absolute_path")
# What some tools insist on besides.
_BESIDES = {"description": "scripted", "is_background": False, "security_risk": "LOW", "instruction": "scripted"}
_LEVELS = re.compile(r"__|\.|/")


@dataclass(frozen=True)
class Say:
    """Words of the assistant."""

    text: str


@dataclass(frozen=True)
class Think:
    """Words it keeps to itself."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call of a tool; its input is text where the tool takes no JSON."""

    name: str
    input: dict[str, Any] | str


Lowered = Say | Think | Call


def lowered(conversation: Conversation, block: Block) -> Lowered:
    """The block in the agent's own words; a tool it does not offer becomes a text that says so."""
    match block:
        case {"text": str(text)}:
            return Say(text)
        case {"think": str(text)}:
            return Think(text)
        case {"structured": value}:
            tool = picked(conversation, "StructuredOutput")
            return Call(tool, value) if tool and isinstance(value, dict) else Say(json.dumps(value))
        case {"bash": str(command)}:
            return _shell(conversation, command)
        case {"read": str(path)}:
            tool = picked(conversation, *_READS)
            fits = tool and "command" not in _properties(conversation, tool)
            return (
                _fitted(conversation, tool, [(path, _PATH)])
                if tool and fits
                else _shell(conversation, f"cat {shlex.quote(path)}")
            )
        case {"write": change} | {"edit": change}:
            return _changed(conversation, change)
        case {"tool": str(name)}:
            return _named(conversation, name, block.get("input", {}))
    return Say("")


def picked(conversation: Conversation, *names: str) -> str:
    """The first of these tools that is offered, by its whole name or by its last part; "" when none is."""
    for name in names:
        if name in conversation.tools:
            return name
    for name in names:
        found = [tool for tool in conversation.tools if _LEVELS.split(tool)[-1] == _LEVELS.split(name)[-1]]
        if len(found) == 1:
            return found[0]
    return ""


def _shell(conversation: Conversation, command: str) -> Lowered:
    if cell := _cell(conversation):
        return _in_cell(cell, "exec_command", {"cmd": command})
    tool = picked(conversation, *SHELLS)
    if not tool:
        return Say(f"(no shell is offered: {', '.join(conversation.tools)})")
    if table(_properties(conversation, tool).get("command")).get("type") == "array":
        return Call(tool, {"command": ["bash", "-lc", command]})
    return _fitted(conversation, tool, [(command, ("command", "cmd", "script"))])


def _changed(conversation: Conversation, change: dict[str, str]) -> Lowered:
    """Write a whole file, or put new text in the place of old."""
    path, cell = change["path"], _cell(conversation)
    if cell:
        return _in_cell(cell, "apply_patch", _patch(change))
    if "apply_patch" in conversation.tools:
        free = any(tool.get("name") == "apply_patch" and tool.get("type") == "custom" for tool in conversation.offered)
        return Call("apply_patch", _patch(change) if free else {"input": _patch(change)})
    if "content" in change:
        tool = picked(conversation, *_WRITES)
        values = [(path, _PATH), (change["content"], ("content",))]
        return _fitted(conversation, tool, values) if tool else _shell(conversation, _written(path, change["content"]))
    tool = picked(conversation, *_EDITS)
    old, new = ("old_string", "oldString", "old_str", "before"), ("new_string", "newString", "new_str", "after")
    values = [(path, _PATH), (change["old"], old), (change["new"], new)]
    return _fitted(conversation, tool, values) if tool else _shell(conversation, _replaced(change))


def _written(path: str, content: str) -> str:
    return f"printf %s {shlex.quote(content)} > {shlex.quote(path)}"


def _replaced(change: dict[str, str]) -> str:
    program = (
        "import pathlib, sys; path, old, new = sys.argv[1:]; file = pathlib.Path(path); "
        "file.write_text(file.read_text().replace(old, new, 1))"
    )
    return shlex.join(["python3", "-c", program, change["path"], change["old"], change["new"]])


def _patch(change: dict[str, str]) -> str:
    """The patch language of codex."""
    if "content" in change:
        body = [f"*** Add File: {change['path']}", *(f"+{line}" for line in change["content"].splitlines())]
    else:
        body = [f"*** Update File: {change['path']}", "@@"]
        body += [f"-{line}" for line in change["old"].splitlines()]
        body += [f"+{line}" for line in change["new"].splitlines()]
    return "\n".join(["*** Begin Patch", *body, "*** End Patch"])


def _named(conversation: Conversation, name: str, given: dict[str, Any] | str) -> Lowered:
    tool = picked(conversation, name)
    if not tool and (cell := _cell(conversation)):
        return _in_cell(cell, name, given)
    return Call(tool or name, given)


def _cell(conversation: Conversation) -> str:
    """Newer models of codex have one tool, which runs JavaScript that calls the others."""
    cells = [tool for tool in conversation.tools if tool in ("exec", "functions.exec")]
    return cells[0] if cells and conversation.api == "responses" else ""


def _in_cell(cell: str, tool: str, given: Any) -> Call:
    return Call(cell, f"text(await tools.{tool}({json.dumps(given)}));")


def _fitted(conversation: Conversation, tool: str, values: list[tuple[str, tuple[str, ...]]]) -> Call:
    """The values under the names that this tool's own schema has for them."""
    known = _properties(conversation, tool)
    given: dict[str, Any] = {next((one for one in names if one in known), names[0]): value for value, names in values}
    return Call(tool, given | {name: value for name, value in _BESIDES.items() if name in known and name not in given})


def _properties(conversation: Conversation, tool: str) -> dict[str, Any]:
    for offered in conversation.offered:
        if offered.get("name") == tool:
            form = offered.get("input_schema") or offered.get("parameters") or offered.get("parametersJsonSchema")
            return table(table(form).get("properties"))
    return {}
