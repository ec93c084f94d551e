"""What the forge holds, normalised: issues, pull requests, comments, required checks."""

import re
from typing import Literal

from pydantic import Field

from resolvent.domain.model import Value

CLOSING = re.compile(r"\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?)\b:?\s+(?P<issue>#\d+|https?://\S+/issues/\d+)", re.I)


class Issue(Value):
    """A reported problem; `number` is None when it came from a Markdown file."""

    number: int | None
    title: str
    body: str = ""
    url: str = ""
    author: str = ""
    labels: tuple[str, ...] = ()
    state: Literal["open", "closed"] = "open"
    slug: str = ""

    @property
    def key(self) -> str:
        """The subject this issue is: at most one active run may claim it."""
        return f"issue-{self.number}" if self.number is not None else f"file-{self.slug}"

    @property
    def reference(self) -> str:
        """How people name it: `#42`, or the file's name."""
        return f"#{self.number}" if self.number is not None else self.slug


class PullRequest(Value):
    """A proposed change on the forge: `head` is its branch, `head_commit` the exact commit."""

    number: int
    url: str
    title: str
    body: str = ""
    author: str = ""
    head: str
    head_commit: str
    base: str
    state: Literal["open", "closed", "merged"] = "open"
    draft: bool = False
    from_fork: bool = False
    merge_commit: str = ""

    @property
    def key(self) -> str:
        return f"pr-{self.number}"

    @property
    def closes(self) -> str | None:
        """The issue its body or title says it fixes: `#12` or a link."""
        found = CLOSING.search(self.body) or CLOSING.search(self.title)
        return found["issue"] if found else None


class Comment(Value):
    """One comment on an issue or a pull request, with the login that wrote it."""

    id: str
    author: str
    body: str
    url: str


class RequiredCheck(Value):
    """What the forge's own CI says of one commit under one required name."""

    name: str
    commit: str
    state: Literal["pending", "passed", "failed"]
    log: str = ""
    url: str = ""


class Reported(Value):
    """A pull request an agent says it made; nothing until the forge confirms it."""

    url: str
    number: int = Field(gt=0)
    head: str
