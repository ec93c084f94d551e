"""A verb as data: what is asked, under an id that is its content."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from pydantic import BaseModel

from resolvent.domain.model import Value
from resolvent.errors import Bug, ResolventError, classes


class Request(Value):
    """One verb of one run; the id changes when, and only when, what is asked changes or is tried again."""

    run: str
    verb: str
    name: str
    title: str
    inputs: dict[str, Any]
    attempt: int = 1
    position: int = 0
    # Logs beside the question: they follow from verbs that were asked before, so they do not make it another question.
    shown: dict[str, str] = {}
    copied: dict[str, Any] | None = None

    @property
    def key(self) -> str:
        return f"{self.verb}:{self.name}@{digest(self.inputs)}"

    @property
    def id(self) -> str:
        return f"{self.run}/{self.key}#{self.attempt}"

    @property
    def file_name(self) -> str:
        """The id as a name for files: readable first, unique last."""
        return f"{self.run}.{self.verb}.{self.name}.{sha256(self.id.encode()).hexdigest()[:12]}"


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def digest(inputs: Mapping[str, Any]) -> str:
    """The same inputs, the same verb: this is why loops and fan-outs need no step numbers."""
    text = json.dumps(plain(inputs), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def dump_error(error: ResolventError) -> dict[str, Any]:
    """An error as a value: the library would bring it back as another class without its attributes."""
    return {
        "class": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "details": {name: plain(value) for name, value in error.details.items()},
    }


def revive(recorded: Mapping[str, Any]) -> ResolventError:
    """The error a verb recorded."""
    kind = classes().get(str(recorded["class"]), Bug)
    return kind(str(recorded["message"]), hint=str(recorded.get("hint", "")), **recorded.get("details", {}))
