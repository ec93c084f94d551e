"""What the driver of an ACP agent printed, read as a whole."""

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from resolvent.adapters.agents.acp_driver.report import Began, Ended
from resolvent.adapters.agents.lines import Objects, sensible
from resolvent.domain.job import Usage
from resolvent.domain.transcript import Spent

T = TypeVar("T", bound=BaseModel)

MOST_TEXT = 12 << 20
# After these the agent's next words begin a new line.
_BETWEEN = ("thinking", "tool_call", "tool_result")


@dataclass(frozen=True)
class Told:
    """One turn: its words, what it spent, how it began and how it ended; None for what was never said."""

    text: str
    spent: Usage
    began: Began | None
    ended: Ended | None

    @classmethod
    def read(cls, output: Path) -> "Told":
        """The last word counts; lines that cannot be read are passed over."""
        began, ended, spent, words = None, None, Usage(), _Words()
        for line in Objects(output):
            kind = line.get("kind")
            if kind == "text" and isinstance(line.get("text"), str):
                words.add(line["text"])
            elif kind in _BETWEEN:
                words.pause()
            elif kind == "usage" and (told := _as(Spent, line)) is not None:
                spent = sensible(told.usage)
            elif kind == "session":
                began = _as(Began, line) or began
            elif kind == "ended":
                ended = _as(Ended, line)
        return cls(words.text, sensible(ended.usage) if ended else spent, began, ended)


class _Words:
    """The end of what was said, however much it was."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._length = 0
        self._paused = False

    def add(self, piece: str) -> None:
        if self._paused and self._pieces and not self._pieces[-1].endswith("\n"):
            piece = "\n" + piece
        self._paused = False
        self._pieces.append(piece)
        self._length += len(piece)
        while self._length - len(self._pieces[0]) >= MOST_TEXT:
            self._length -= len(self._pieces.popleft())

    def pause(self) -> None:
        self._paused = True

    @property
    def text(self) -> str:
        return "".join(self._pieces)[-MOST_TEXT:].encode("utf-8", "replace").decode()


def _as(kind: type[T], line: dict[str, Any]) -> T | None:
    try:
        return kind.model_validate(line)
    except (ValidationError, RecursionError):
        return None
