"""Where a run starts: exactly one issue, pull request or file, read from what a person typed."""

import re
from typing import Literal

from resolvent.domain.model import Value
from resolvent.errors import UsageError

_LINK = re.compile(r"(?:https?://|local:)\S*?(?P<kind>issues|pulls?)/(?P<number>\d+)(?=[\s)\].,;:!?#]|$)")
_PULL_NAME = re.compile(r"\b(?:pr|pull request)\s*#?(?P<number>\d+)\b", re.I)
_HASH = re.compile(r"(?<![\w/#])#(?P<number>\d+)\b")
_NUMBER = re.compile(r"#?(?P<number>\d+)")
EXAMPLE = "resolvent resolve 42, resolvent resolve --pr 17, or resolvent resolve --file bug.md"


class Entry(Value):
    """The one thing a run is about; `new_issue` starts from an issue, `existing_pr` continues a pull request."""

    kind: Literal["issue", "pull", "file"]
    reference: str

    @property
    def mode(self) -> Literal["new_issue", "existing_pr"]:
        return "existing_pr" if self.kind == "pull" else "new_issue"


def entry_point(task: str | None = None, *, pull: str | None = None, file: str | None = None) -> Entry:
    """Exactly one entry point; both, or none, is a usage error."""
    given = [
        *([_from_text(task)] if task and task.strip() else []),
        *([Entry(kind="pull", reference=_number(pull, "pull request"))] if pull else []),
        *([Entry(kind="file", reference=file)] if file else []),
    ]
    if len(given) != 1:
        what = "nothing was given" if not given else "more than one was given"
        raise UsageError(f"one issue or one pull request starts a run; {what}", hint=EXAMPLE)
    return given[0]


def _from_text(task: str) -> Entry:
    """A number, a link, or a sentence that holds exactly one of them."""
    bare = _NUMBER.fullmatch(task.strip())
    if bare:
        return Entry(kind="issue", reference=bare["number"])
    found: dict[Entry, None] = {}
    rest = task
    for link in _LINK.finditer(task):
        found[Entry(kind="issue" if link["kind"] == "issues" else "pull", reference=link["number"])] = None
        rest = rest.replace(link[0], " ")
    for named in _PULL_NAME.finditer(rest):
        found[Entry(kind="pull", reference=named["number"])] = None
    for hashed in _HASH.finditer(_PULL_NAME.sub(" ", rest)):
        found[Entry(kind="issue", reference=hashed["number"])] = None
    if len(found) != 1:
        what = "no issue or pull request" if not found else "more than one issue or pull request"
        raise UsageError(f"{what} in {task[:80]!r}", hint=EXAMPLE)
    return next(iter(found))


def _number(reference: str, what: str) -> str:
    found = _NUMBER.fullmatch(reference.strip()) or _LINK.search(reference)
    if not found:
        raise UsageError(f"{reference!r} is not the number or link of a {what}", hint=EXAMPLE)
    return found["number"]
