"""What GitHub says, as the domain has it. Pure.

The answers were parsed by githubkit's strict models; they are `Any` here, since mypy would need a minute to read the
1,600 modules those models are in.
"""

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from resolvent.adapters.forges.github_place import Where, instant
from resolvent.domain.subject import Comment, Issue, PullRequest

# Who deleted their account.
GHOST = "ghost"


class Named(BaseModel):
    """A login, or the name of a label."""

    login: str = ""
    name: str | None = None


class Found(BaseModel):
    """An issue in what a search found: githubkit's own model refuses one without a text, and GitHub sends them."""

    number: int
    title: str
    body: str | None = None
    html_url: str
    user: Named | None
    labels: list[Named]
    state: str
    created_at: datetime
    updated_at: datetime
    pull_request: dict[str, Any] | None = None


class Event(BaseModel):
    """Something that happened to an issue, of which there are many kinds and ever more."""

    event: str
    actor: Named | None = None
    created_at: datetime
    label: Named | None = None


def issue(said: Any) -> Issue:
    """An issue; what is a pull request is told apart before."""
    return Issue(
        number=said.number,
        title=said.title,
        body=said.body or "",
        url=said.html_url,
        author=login(said.user),
        labels=labels(said),
        state="closed" if said.state == "closed" else "open",
        created_at=instant(said.created_at),
        updated_at=instant(said.updated_at),
    )


def is_pull(said: Any) -> bool:
    """GitHub lists pull requests among the issues."""
    return bool(said.pull_request)


def pull(said: Any, *, merge_commit: str = "") -> PullRequest:
    """A pull request; the answer does not tell its merge commit."""
    theirs = said.head.repo
    state = "merged" if said.merged_at else "closed" if said.state == "closed" else "open"
    return PullRequest(
        number=said.number,
        url=said.html_url,
        title=said.title,
        body=said.body or "",
        author=login(said.user),
        head=said.head.ref,
        head_commit=said.head.sha,
        base=said.base.ref,
        state=state,
        draft=bool(said.draft),
        # A fork that is gone has no name any more.
        from_fork=not theirs or theirs.full_name.casefold() != said.base.repo.full_name.casefold(),
        merge_commit=merge_commit,
        labels=labels(said),
        created_at=instant(said.created_at),
        updated_at=instant(said.updated_at),
    )


def comment(said: Any, where: Where) -> Comment:
    """A comment, with what it is on."""
    return Comment(
        id=str(said.id),
        author=login(said.user),
        body=said.body or "",
        url=said.html_url,
        target=where.comment_target(said.html_url),
        created_at=instant(said.created_at),
        updated_at=instant(said.updated_at),
    )


def login(user: Any) -> str:
    """The login of who wrote it."""
    return user.login if user else GHOST


def labels(said: Any) -> tuple[str, ...]:
    """The names of the labels; older answers hold only names."""
    names = (label if isinstance(label, str) else label.name for label in said.labels)
    return tuple(sorted(str(name) for name in names if name))
