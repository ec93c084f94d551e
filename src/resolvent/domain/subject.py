"""What the forge holds, normalised: issues, pull requests, comments, required checks."""

import re
from typing import Literal

from pydantic import Field

from resolvent.domain.model import Value

Permission = Literal["none", "read", "triage", "write", "maintain", "admin"]
Listed = Literal["open", "closed", "all"]
MergeMethod = Literal["merge", "squash", "rebase"]
Reaction = Literal["eyes", "+1", "-1", "confused", "rocket"]

CLOSING = re.compile(
    r"\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?)\b:?\s+(?P<issue>#\d+|https?://\S+/issues/\d+)\b", re.I
)
# Templates keep their examples in comments; one that is never closed hides the rest.
HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.S)


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
    # Instants, in seconds since the epoch; 0 where nobody knows.
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The subject this issue is: at most one active run may claim it."""
        return f"issue-{self.number}" if self.number is not None else f"file-{self.slug}"

    @property
    def reference(self) -> str:
        """How people name it: `#42`, or the file's name."""
        return f"#{self.number}" if self.number is not None else self.slug


class Labelling(Value):
    """Who put a label on, and when; empty and 0 where nobody knows."""

    by: str = ""
    at: float = 0.0


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
    labels: tuple[str, ...] = ()
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        return f"pr-{self.number}"

    @property
    def closes(self) -> str | None:
        """The issue its body or title says it fixes: `#12` or a link."""
        found = CLOSING.search(HIDDEN.sub("", self.body)) or CLOSING.search(self.title)
        return found["issue"] if found else None


class Comment(Value):
    """One comment on an issue or a pull request, with the login that wrote it."""

    id: str
    author: str
    body: str
    url: str
    # What it is on: `issue-N` or `pr-N`.
    target: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0


class RequiredCheck(Value):
    """What the forge's own CI says of one commit under one required name."""

    name: str
    commit: str
    state: Literal["pending", "passed", "failed"]
    log: str = ""
    url: str = ""
    # Raised by every rerun, so that one asked for before a crash is not asked for again.
    attempt: int = 1


class Synced(Value):
    """What the forge's default branch is now; `dirty`: the checkout holds, or may hold, work that no commit has;
    `behind`: it lacks commits that the forge has."""

    branch: str
    commit: str
    dirty: bool = False
    behind: bool = False


class Reported(Value):
    """A pull request an agent says it made; nothing until the forge confirms it."""

    url: str = Field(min_length=1)
    number: int = Field(gt=0, lt=1 << 53)
    head: str = Field(min_length=1)
