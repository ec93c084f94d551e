"""What the rehearsal forge holds at one moment, as plain values: what REST and GraphQL are shaped from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from resolvent.domain.subject import Permission

Opinion = Literal["approve", "request_changes", "comment", "dismissed"]


@dataclass(frozen=True)
class Account:
    """Somebody with a login; `id` is a number of its own."""

    id: int
    login: str
    kind: Literal["User", "Bot", "Organization"] = "User"
    permission: Permission = "read"


@dataclass(frozen=True)
class Label:
    id: int
    name: str
    color: str = "ededed"
    description: str = ""


@dataclass(frozen=True)
class Reacted:
    """One reaction of one account."""

    id: int
    login: str
    content: str
    created_at: float


@dataclass(frozen=True)
class Labelled:
    """Who put one label on, and when; empty and 0 where nobody wrote that down."""

    name: str
    login: str
    created_at: float


@dataclass(frozen=True)
class Remark:
    """A comment on an issue or pull request."""

    id: int
    number: int
    author: str
    body: str
    created_at: float
    updated_at: float
    reactions: tuple[Reacted, ...] = ()


@dataclass(frozen=True)
class LineRemark:
    """A comment of a review on one line of a file."""

    id: int
    review: int
    author: str
    body: str
    path: str
    line: int
    commit: str
    created_at: float


@dataclass(frozen=True)
class Opined:
    """A review of a pull request at one commit."""

    id: int
    number: int
    author: str
    opinion: Opinion
    body: str
    commit: str
    created_at: float
    remarks: tuple[LineRemark, ...] = ()


@dataclass(frozen=True)
class Item:
    """An issue or a pull request; what only pull requests have is empty for issues."""

    number: int
    kind: Literal["issue", "pull"]
    title: str
    body: str
    author: str
    state: Literal["open", "closed", "merged"]
    created_at: float
    updated_at: float
    closed_at: float | None = None
    # `completed`, `not_planned` or, after it was closed and opened again, `reopened`.
    reason: str = ""
    labels: tuple[str, ...] = ()
    labellings: tuple[Labelled, ...] = ()
    assignees: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()
    reactions: tuple[Reacted, ...] = ()
    locked: bool = False
    # Of pull requests:
    head: str = ""
    head_commit: str = ""
    base: str = ""
    # The base as it is now, or as it was when this was merged.
    base_commit: str = ""
    draft: bool = False
    merged_at: float | None = None
    merged_by: str = ""
    merge_commit: str = ""
    reviewers: tuple[str, ...] = ()
    reviews: tuple[Opined, ...] = ()


@dataclass(frozen=True)
class CheckRun:
    """One run of one check on one commit: a job of the workflow run `run`, or, when `run` is 0, a commit status."""

    id: int
    run: int
    commit: str
    name: str
    status: Literal["queued", "in_progress", "completed"]
    # `success`, `failure`, `cancelled`, `timed_out`, `skipped`, `neutral`; empty while it is not completed.
    conclusion: str
    log: str
    attempt: int
    started_at: float
    completed_at: float | None = None


@dataclass(frozen=True)
class Commit:
    """A commit as git tells it."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: str
    email: str
    at: float
    message: str


@dataclass(frozen=True)
class ChangedFile:
    """A file of a difference; `status` is `added`, `modified`, `removed` or `renamed`. Binary files count no lines."""

    path: str
    status: str
    added: int
    removed: int
    # What it was called before it was renamed.
    previous: str = ""
    # Its content, or what it was before it was removed.
    blob: str = ""


@dataclass(frozen=True)
class Holdings:
    """Everything at one moment; `version` is another number after every write."""

    version: int
    owner: str
    name: str
    default_branch: str
    created_at: float
    archived: bool
    accounts: Mapping[str, Account]
    labels: Mapping[str, Label]
    items: Mapping[int, Item]
    # `refs/heads/…` and `refs/resolvent/claims/…` → commit.
    refs: Mapping[str, str]
    required: tuple[str, ...]
    # By commit, the newest run of each check last.
    checks: Mapping[str, tuple[CheckRun, ...]]


@dataclass(frozen=True)
class Occurrence:
    """Something was written on the forge: `kind` and `action` are the words that webhooks use.

    `push` has `ref`, `before` and `after` (forty zeros where there is none), `check_run` has `check`; the others are
    about `item`, as it is now, with the `remark`, `review`, `line` (of a review), `label` or `login` that it is about.
    """

    kind: str
    action: str
    by: Account
    item: Item | None = None
    remark: Remark | None = None
    review: Opined | None = None
    line: LineRemark | None = None
    check: CheckRun | None = None
    label: str = ""
    login: str = ""
    ref: str = ""
    before: str = ""
    after: str = ""
