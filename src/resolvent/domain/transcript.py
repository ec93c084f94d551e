"""What an agent did, moment by moment, in the same words for every program."""

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from resolvent.domain.job import Usage
from resolvent.domain.model import Value

# A moment is for people and rules, not the record: the raw lines are that.
MOST_TEXT = 1 << 16


class Said(Value):
    """Words of the agent."""

    kind: Literal["text"] = "text"
    text: str


class Thought(Value):
    """What it thought, where its program tells."""

    kind: Literal["thinking"] = "thinking"
    text: str


class ToolCalled(Value):
    """It asks for a tool; `input` is what it passes, as JSON or as the command."""

    kind: Literal["tool_call"] = "tool_call"
    call: str
    tool: str
    input: str = ""


class ToolAnswered(Value):
    """What the tool gave it back."""

    kind: Literal["tool_result"] = "tool_result"
    call: str
    output: str = ""
    failed: bool = False


class FileChanged(Value):
    """It changed a file by a tool that says so."""

    kind: Literal["file_change"] = "file_change"
    path: str
    change: Literal["add", "update", "delete"] = "update"


class Spent(Value):
    """What this job has spent up to now, all in all."""

    kind: Literal["usage"] = "usage"
    usage: Usage


class Retried(Value):
    """Its program asks the model again; `status` is the HTTP status it got, 0 when there was none."""

    kind: Literal["retry"] = "retry"
    attempt: int = 0
    status: int = 0
    reason: str = ""
    delay_s: float = 0.0


class Noticed(Value):
    """Something a person may want to know: a tool that was refused, a server that did not start."""

    kind: Literal["notice"] = "notice"
    text: str


Moment = Annotated[
    Said | Thought | ToolCalled | ToolAnswered | FileChanged | Spent | Retried | Noticed, Field(discriminator="kind")
]
MOMENT: TypeAdapter[Any] = TypeAdapter(Moment)


def shortened(text: str, most: int = MOST_TEXT) -> str:
    """The text, or its beginning and its end with the number of characters in between."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"
