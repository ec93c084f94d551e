"""One conversation, whatever API it came through: what was said, called and returned, and what the agent offers."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal

Api = Literal["messages", "responses", "chat"]
Kind = Literal["user", "assistant", "call", "result", "system"]
MARK = re.compile(r"\[\[scenario:([\w.-]+)\]\]")
# What programs put among the words of the user by themselves.
_NOTES = (
    "<system-reminder>",
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
    "[Request interrupted",
    "[structured-output-enforce]",
)
# How claude, codex, goose and others say where they work.
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        r"<cwd>([^<\n]+)</cwd>",
        r"<working-directory>([^<\n]+)</working-directory>",
        r"[Ww]orking directory:? *`?(/[^\s`]+)",
        r"working (?:in the )?directory(?: is)?:? *`?(/[^\s`]+)",
        r"Workspace Directories:\*{0,2}\s*-? *`?(/[^\s`]+)",
        r"CWD: (/[^\s]+)",
    )
)


@dataclass(frozen=True)
class Item:
    """One entry of a transcript."""

    kind: Kind
    text: str = ""
    # The tool's, for a call.
    name: str = ""


@dataclass(frozen=True)
class Conversation:
    """What one request holds: these APIs keep no state, so it is the whole transcript."""

    api: Api
    model: str
    system: str
    items: tuple[Item, ...]
    tools: tuple[str, ...]
    stream: bool = False
    # The JSON schema the answer is asked to fit, where the API has a field for it.
    schema: dict[str, Any] | None = None
    # The tools as the request describes them.
    offered: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    @cached_property
    def prompt(self) -> str:
        """What a person, or whoever drives the agent, said last."""
        return self.items[self._opening].text if self.items else ""

    @cached_property
    def user_text(self) -> str:
        """Everything that came in the user's name."""
        return "\n".join(item.text for item in self.items if item.kind == "user")

    @cached_property
    def last_input(self) -> str:
        """The newest result of a tool, or words of the user."""
        return next((item.text for item in reversed(self.items) if item.kind in ("result", "user")), "")

    @property
    def turns(self) -> int:
        """How many user turns there are, the one being answered among them."""
        return len(self._openings)

    @property
    def turn_steps(self) -> int:
        """How many steps the assistant took in the last user turn."""
        return self.steps_since(self._opening)

    @property
    def results(self) -> tuple[str, ...]:
        """What tools returned in the last user turn."""
        return tuple(item.text for item in self.items[self._opening :] if item.kind == "result")

    @property
    def structured(self) -> bool:
        """The answer of this turn is asked for after a schema."""
        return self.schema is not None or "StructuredOutput" in self.tools

    @cached_property
    def cwd(self) -> str:
        """The agent's working directory, as it says; "." where it does not."""
        told = f"{self.system}\n{self.user_text}"
        found = next((match for place in _PLACES if (match := place.search(told))), None)
        return found[1].rstrip(".") if found else "."

    def named(self, prefix: str, number: int = 0) -> str:
        """An id for a part of the reply to this request: the same for a retry, another one for every other request."""
        seed = f"{self.prompt}\0{len(self.items)}\0{self.last_input}\0{number}\0{prefix}"
        return f"{prefix}_{sha256(seed.encode('utf-8', 'replace')).hexdigest()[:20]}"

    def marked(self) -> tuple[str, int]:
        """The last scenario a prompt names and where it does; "" and 0 when none does."""
        name, start = "", 0
        for number, item in enumerate(self.items):
            for mark in MARK.finditer(item.text) if item.kind == "user" else ():
                name, start = mark[1], number
        return name, start

    def steps_since(self, start: int) -> int:
        """Steps of the assistant from that item on: runs of words and calls, parted by results and users."""
        speaking = [item.kind in ("assistant", "call") for item in self.items[start:]]
        return sum(now and not before for now, before in zip(speaking, [False, *speaking], strict=False))

    @property
    def _opening(self) -> int:
        return self._openings[-1] if self._openings else 0

    @cached_property
    def _openings(self) -> tuple[int, ...]:
        """Where each user turn begins; what the program itself adds begins none."""
        found: list[int] = []
        answered = True
        for number, item in enumerate(self.items):
            if item.kind != "user":
                answered = True
            elif not item.text.lstrip().startswith(_NOTES):
                # Words that follow words are one turn; the last of them are what is asked.
                found[len(found) if answered else -1 :] = [number]
                answered = False
        return tuple(found)
