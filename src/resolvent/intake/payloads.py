"""GitHub's webhooks as arrivals: parsed once, here; what we do not know is left alone."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from resolvent.domain.arrival import Arrival, Kind, Rules, digest, wish_in
from resolvent.domain.subject import Comment
from resolvent.intake.desk import new_run
from resolvent.intake.polling import heard

Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
Number = Annotated[int, Field(gt=0, lt=1 << 53, strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Account(_Part):
    login: str = Field(min_length=1, max_length=200)
    type: str = "User"

    @property
    def bot(self) -> bool:
        return self.type == "Bot"


class _Label(_Part):
    name: str


class _Repository(_Part):
    full_name: str


class _Item(_Part):
    number: Number
    title: Text | None = None
    body: Text = ""
    # Somebody whose account is gone is nobody.
    user: _Account | None = None
    state: Literal["open", "closed"]
    labels: tuple[_Label, ...] = ()
    created_at: AwareDatetime
    updated_at: AwareDatetime
    # An issue that is a pull request has this.
    pull_request: dict[str, Any] | None = None
    merged: bool | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(label.name for label in self.labels)

    @property
    def said(self) -> str:
        """The digest of its text, where that is told."""
        return digest(self.title, self.body) if self.title and "body" in self.model_fields_set else ""


class _Remark(_Part):
    id: Number
    body: Text = ""
    user: _Account | None = None
    html_url: str = ""
    created_at: AwareDatetime
    updated_at: AwareDatetime


class _Event(_Part):
    action: str
    repository: _Repository
    sender: _Account


class _Issues(_Event):
    issue: _Item
    label: _Label | None = None


class _Commented(_Event):
    issue: _Item
    comment: _Remark


class _Pulled(_Event):
    pull_request: _Item


class _Run(_Part):
    head_sha: str


class _CheckRun(_Part):
    repository: _Repository
    action: str
    check_run: _Run


class _Status(_Part):
    repository: _Repository
    state: str
    sha: str


EVENTS: dict[str, type[_Event]] = {"issues": _Issues, "issue_comment": _Commented, "pull_request": _Pulled}


def arrivals_of(event: str, payload: object, rules: Rules, *, repo: str = "") -> tuple[Arrival, ...]:
    """What a delivery tells us; ValidationError when it is not what GitHub says it is."""
    if event not in EVENTS:
        return ()
    told = EVENTS[event].model_validate(payload)
    if not _ours(told.repository, repo):
        return ()
    match told:
        case _Issues():
            return tuple(_issue(told, rules))
        case _Commented():
            return tuple(_comment(told, rules))
        case _Pulled():
            return tuple(_pull(told))
    return ()


def judged_commit(event: str, payload: object, *, repo: str = "") -> str:
    """The commit of which a check of ours ended, if that is told; ValidationError as above."""
    if event == "check_run":
        run = _CheckRun.model_validate(payload)
        return run.check_run.head_sha if run.action == "completed" and _ours(run.repository, repo) else ""
    if event == "status":
        status = _Status.model_validate(payload)
        return status.sha if status.state != "pending" and _ours(status.repository, repo) else ""
    return ""


def _ours(repository: _Repository, repo: str) -> bool:
    return not repo or repository.full_name.casefold() == repo.casefold()


def _issue(told: _Issues, rules: Rules) -> Iterator[Arrival]:
    ours = told.label is not None and rules.labels((told.label.name,))
    open_with_label = told.issue.state == "open" and rules.labels(told.issue.names)
    match told.action:
        case "labeled" if ours and told.issue.state == "open":
            yield _arrival("labelled", told)
        case "reopened" if open_with_label:
            yield _arrival("reopened", told)
        case "unlabeled" if ours:
            yield _arrival("unlabelled", told)
        case "edited":
            yield _arrival("edited", told)
        case "closed" | "deleted" | "transferred":
            yield _arrival("closed", told)
        case "opened":
            wish, author = wish_in(told.issue.body, rules.mention), told.issue.user
            if wish and author:
                asked = {"by": author.login, "bot": author.bot, "wish": wish, "at": told.issue.created_at.timestamp()}
                # Whoever asks in the text itself may go on writing it.
                asked["said"] = ""
                yield _arrival("mentioned", told).model_copy(update=asked)


def _comment(told: _Commented, rules: Rules) -> Iterator[Arrival]:
    if told.action not in ("created", "edited") or told.comment.user is None:
        return
    said, number = told.comment, told.issue.number
    comment = Comment(
        id=str(said.id),
        author=told.comment.user.login,
        body=said.body,
        url=said.html_url,
        target=f"pr-{number}" if told.issue.pull_request else f"issue-{number}",
        created_at=said.created_at.timestamp(),
        updated_at=said.updated_at.timestamp(),
    )
    for one in heard([comment], rules, bot=told.comment.user.bot):
        yield one.model_copy(update={"said": told.issue.said})


def _pull(told: _Pulled) -> Iterator[Arrival]:
    if told.action == "closed" and not told.pull_request.merged:
        pull = told.pull_request
        yield Arrival(kind="closed", subject=f"pr-{pull.number}", by=told.sender.login, at=pull.updated_at.timestamp())


def _arrival(kind: Kind, told: _Issues) -> Arrival:
    return Arrival(
        kind=kind,
        subject=f"issue-{told.issue.number}",
        by=told.sender.login,
        bot=told.sender.bot,
        at=told.issue.updated_at.timestamp(),
        said=told.issue.said,
        run=new_run(),
    )
