"""GitHub as a forge: the port on its REST and GraphQL and on git over https."""

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import get_args

from resolvent.adapters.forges.github_api import Api
from resolvent.adapters.forges.github_checks import Checks
from resolvent.adapters.forges.github_claims import Claims
from resolvent.adapters.forges.github_git import Remote
from resolvent.adapters.forges.github_issues import Issues
from resolvent.adapters.forges.github_place import GitHubPlace, Kind
from resolvent.adapters.forges.github_pulls import Pulls
from resolvent.domain.change import Change
from resolvent.domain.subject import (
    Comment,
    Issue,
    Labelling,
    Listed,
    MergeMethod,
    Permission,
    PullRequest,
    Reaction,
    RequiredCheck,
    Synced,
)
from resolvent.errors import NotFound, UsageError

__all__ = ["GitHubForge", "GitHubPlace"]

_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\[bot\])?")


class GitHubForge:
    """The forge port on one repository of GitHub, as whoever the token or the App is."""

    def __init__(self, place: GitHubPlace, *, page: int = 100) -> None:
        self._place = place
        self._api = Api(place, page=page)
        kinds: dict[int, Kind] = {}
        self._issues = Issues(self._api, kinds)
        self._pulls = Pulls(self._api, kinds, pause_s=place.retry_s)
        self._checks = Checks(self._api, poll_s=place.poll_s)
        self._remote = Remote(self._api, place)
        self._claims = Claims(self._api, self._remote)
        self._login = ""

    @classmethod
    async def open(cls, place: GitHubPlace) -> "GitHubForge":
        """The forge; nothing is asked before the first verb. UsageError when something to ask with is missing."""
        if importlib.util.find_spec("githubkit") is None:
            hint = "pip install '.[github]'  # where you cloned Resolvent"
            raise UsageError("GitHub needs more than is installed", hint=hint)
        if not place.token and not (place.app and place.installation and place.private_key):
            raise UsageError(
                f"there is no token for {place.repo}",
                hint='set forge.token = "$GITHUB_TOKEN", or forge.app, forge.installation and forge.private_key',
            )
        return cls(place)

    async def login(self) -> str:
        if not self._login:
            if self._api.app:
                self._login = f"{(await self._api.get('Integration', '/app')).slug}[bot]"
            else:
                self._login = str((await self._api.get("SimpleUser", "/user")).login)
        return self._login

    async def trusted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((await self.login(), *self._place.trusted_logins)))

    async def permission(self, login: str) -> Permission:
        if not _LOGIN.fullmatch(login):
            return "none"
        place = self._api.where.path("collaborators", login, "permission")
        try:
            said = await self._api.get("RepositoryCollaboratorPermission", place)
        except NotFound:
            return "none"
        # A role that somebody named is at least what GitHub says it amounts to.
        known = (role for role in (said.role_name, said.permission) if role in get_args(Permission))
        return next(known, "none")

    # --- commits

    async def sync(self, repository: Path) -> Synced:
        return await self._remote.sync(repository, branch=await self.default_branch())

    async def fetch(self, into: Path, ref: str) -> str:
        return await self._remote.fetch(into, ref)

    async def default_branch(self) -> str:
        return str((await self._api.get("FullRepository", self._api.where.path())).default_branch)

    async def head_of(self, branch: str) -> str | None:
        return await self._remote.head_of(branch)

    async def push(self, change: Change, *, source: Path, head: str, expect: str | None) -> None:
        await self._remote.push(change, source=source, head=head, expect=expect)

    async def delete_branch(self, branch: str, *, expect: str) -> None:
        await self._remote.delete(branch, expect=expect)

    # --- issues

    async def issue(self, reference: str) -> Issue:
        return await self._issues.one(reference)

    async def issues(
        self, *, state: Listed = "open", labels: Sequence[str] = (), since: float = 0.0
    ) -> tuple[Issue, ...]:
        return await self._issues.listed(state, labels, since)

    async def search_issues(self, words: str, *, limit: int = 10) -> tuple[Issue, ...]:
        return await self._issues.search(words, limit=limit, login=await self.login())

    async def open_issue(self, *, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        return await self._issues.open(title=title, body=body, labels=labels)

    # --- pull requests

    async def pull_request(self, reference: str) -> PullRequest:
        return await self._pulls.one(reference)

    async def pull_requests(self, *, head: str = "", state: Listed = "all") -> tuple[PullRequest, ...]:
        return await self._pulls.listed(head, state)

    async def open_pull_request(
        self, *, head: str, base: str, title: str, body: str, draft: bool = False
    ) -> PullRequest:
        return await self._pulls.open(head=head, base=base, title=title, body=body, draft=draft)

    async def set_draft(self, pull: PullRequest, draft: bool) -> PullRequest:
        return await self._pulls.set_draft(pull, draft)

    async def ask_for_review(self, pull: PullRequest, logins: Sequence[str]) -> None:
        await self._pulls.ask_for_review(pull, logins)

    def fetch_line(self, pull: PullRequest) -> str:
        page = quote(self._api.where.page)
        if pull.state == "merged":
            return f"git fetch {page} {quote(pull.base)} && git merge --ff-only FETCH_HEAD"
        return f"git fetch {page} refs/pull/{pull.number}/head && git checkout FETCH_HEAD"

    async def merge(self, pull: PullRequest, *, expect: Change, method: MergeMethod = "merge") -> PullRequest:
        return await self._pulls.merge(pull, expect=expect, method=method)

    # --- both

    async def set_state(self, target: str, state: str) -> None:
        await self._issues.set_state(target, state)

    async def label(self, target: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        await self._issues.label(target, add, remove)

    async def labelling(self, target: str, label: str) -> Labelling:
        return await self._issues.labelling(target, label)

    async def comments(self, target: str) -> tuple[Comment, ...]:
        return await self._issues.comments(target)

    async def comments_since(self, instant: float) -> tuple[Comment, ...]:
        return await self._issues.comments_since(instant)

    async def comment(self, target: str, body: str) -> Comment:
        return await self._issues.comment(target, body)

    async def edit_comment(self, comment: Comment, body: str) -> Comment:
        return await self._issues.edit_comment(comment, body)

    async def comment_at(self, url: str) -> Comment:
        return await self._issues.comment_at(url)

    async def react(self, to: Comment | str, reaction: Reaction) -> None:
        await self._issues.react(to, reaction)

    # --- checks

    async def required_checks(self, commit: str) -> tuple[RequiredCheck, ...]:
        return await self._checks.required(commit, branch=await self.default_branch())

    async def rerun(self, check: RequiredCheck) -> None:
        await self._checks.rerun(check, branch=await self.default_branch())

    async def await_checks(self, commit: str, *, timeout_s: float) -> tuple[RequiredCheck, ...]:
        return await self._checks.settled(commit, branch=await self.default_branch(), timeout_s=timeout_s)

    def nudge(self, commit: str) -> None:
        self._checks.nudge(commit)

    # --- one run per subject

    async def claim(self, subject: str, holder: str) -> str:
        return await self._claims.claim(subject, holder, default_branch=self.default_branch)

    async def holder(self, subject: str) -> str:
        return await self._claims.holder(subject)

    async def release(self, subject: str, holder: str) -> None:
        await self._claims.release(subject, holder)

    async def close(self) -> None:
        await self._api.close()
