"""The local forge: issues, pull requests, checks and merges on one machine, with nothing to configure."""

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from resolvent.adapters.forges.local_checks import Checks, State
from resolvent.adapters.forges.local_git import NONE, Refs, branch_ref, last_head_ref, merged_ref
from resolvent.adapters.forges.local_sync import Synced, sync
from resolvent.adapters.forges.local_tables import SCHEMA, Opinion, PullReview, Tables
from resolvent.adapters.forges.local_words import (
    Kind,
    filled,
    fixed_by,
    matches,
    number_of,
    sendable,
    target_of,
    title_line,
    unknown,
)
from resolvent.adapters.forges.markdown import issue_from_markdown
from resolvent.adapters.git import Git
from resolvent.adapters.journal.store import Store
from resolvent.domain.change import Change
from resolvent.domain.subject import Comment, Issue, PullRequest, RequiredCheck
from resolvent.errors import ForgeRefused, HeadMoved, NotFound

_COMMIT = re.compile(r"[0-9a-f]{40,64}")


class LocalForge:
    """The forge port on tables of ours and a bare repository; what git knows is read from git, never from a table."""

    issue_from_markdown = staticmethod(issue_from_markdown)

    def __init__(self, store: Store, directory: Path, *, login: str, trusted_logins: Sequence[str]) -> None:
        self.path = directory / "forge.git"
        self._refs = Refs(Git(self.path))
        self._tables = Tables(store)
        self._checks = Checks(store, directory / "checks.wake")
        self._logins = tuple(dict.fromkeys((login, *trusted_logins)))

    @classmethod
    async def open(
        cls, store: Store, directory: Path, *, login: str = "resolvent", trusted_logins: Sequence[str] = ()
    ) -> "LocalForge":
        """The forge of a state directory, made if it is new; what a crash left half-done is finished."""
        await Git.init_bare(directory / "forge.git")
        (directory / "checks.wake").touch()
        await store.migrate("forge", SCHEMA)
        forge = cls(store, directory, login=login, trusted_logins=trusted_logins)
        await forge.pulls("open")
        return forge

    async def login(self) -> str:
        return self._logins[0]

    async def trusted(self) -> tuple[str, ...]:
        return self._logins

    async def sync(self, repository: Path) -> Synced:
        """Bring the default branch of the user's checkout here; pull requests it holds already are merged."""
        synced = await sync(self._refs, repository)
        for pull in await self.pulls("open"):
            if pull.base == synced.branch and await self._refs.contains(synced.commit, pull.head_commit):
                await self._refs.merge(pull, commit=pull.head_commit)
                await self.pull_request(pull.url)
        return synced

    async def fetch(self, into: Path, ref: str) -> str:
        commit = await self.head_of(ref) or (ref if _COMMIT.fullmatch(ref) else None)
        if commit is None or not await self._refs.holds(commit):
            raise NotFound(f"the forge has no branch or commit {ref!r}", hint=f"git -C {quote(str(self.path))} branch")
        await self._refs.fetch(into, commit)
        return commit

    async def default_branch(self) -> str:
        return await self._refs.default_branch()

    async def head_of(self, branch: str) -> str | None:
        return (await self._refs.read()).get(f"refs/heads/{branch}")

    async def push(self, change: Change, *, source: Path, head: str, expect: str | None) -> None:
        await self._refs.push(change, source=source, head=head, expect=expect)

    async def issue(self, reference: str) -> Issue:
        number = await self._number(reference, "issue")
        return (await self._tables.issues(number=number))[0]

    async def issues(self, state: Literal["open", "closed", "all"] = "open") -> tuple[Issue, ...]:
        """The issues in that state, oldest first."""
        return tuple(issue for issue in await self._tables.issues() if state in ("all", issue.state))

    async def search_issues(self, words: str, *, limit: int = 10) -> tuple[Issue, ...]:
        found = (issue for issue in await self.issues("open") if matches(issue, words))
        return tuple(islice(found, max(0, limit)))

    async def open_issue(self, *, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        return await self.create_issue(title, body, labels=labels)

    async def create_issue(self, title: str, body: str, *, labels: Sequence[str] = (), author: str = "") -> Issue:
        """Open an issue in anyone's name."""
        return await self._tables.add_issue(
            title=title_line(title),
            body=sendable(body),
            labels=[filled(label, "a label") for label in labels],
            author=sendable(author) or self._logins[0],
        )

    async def close_issue(self, reference: str) -> Issue:
        """Close an issue; a closed one stays closed."""
        await self._tables.close(await self._number(reference, "issue"))
        return await self.issue(reference)

    async def set_labels(self, reference: str, labels: Sequence[str]) -> Issue:
        """Give an issue exactly these labels."""
        named = [filled(label, "a label") for label in labels]
        await self._tables.set_labels(await self._number(reference, "issue"), named)
        return await self.issue(reference)

    async def pull_request(self, reference: str) -> PullRequest:
        number = await self._number(reference, "pull")
        return (await self._pulls(await self._tables.items("pull", number=number)))[0]

    async def pull_requests(self, *, head: str) -> tuple[PullRequest, ...]:
        return tuple(pull for pull in await self.pulls("all") if pull.head == head)

    async def pulls(self, state: Literal["open", "closed", "merged", "all"] = "open") -> tuple[PullRequest, ...]:
        """The pull requests in that state, newest first."""
        found = await self._pulls(await self._tables.items("pull"))
        return tuple(pull for pull in reversed(found) if state in ("all", pull.state))

    async def open_pull_request(self, *, head: str, base: str, title: str, body: str) -> PullRequest:
        refs = await self._refs.read()
        tip, onto = refs.get(branch_ref(head)), refs.get(branch_ref(base))
        if tip is None or onto is None:
            raise ForgeRefused(f"{head if tip is None else base} does not exist on the forge: push it first")
        if await self._refs.contains(onto, tip):
            raise ForgeRefused(f"{base} holds everything of {head} already: there is nothing to propose")
        for pull in await self.pull_requests(head=head):
            if pull.base == base and pull.state == "open":
                hint = f"resolvent pr show {pull.number}"
                raise ForgeRefused(f"#{pull.number} is open for {head} onto {base}", hint=hint, number=pull.number)
        said = {"title": title_line(title), "body": sendable(body)}
        number = await self._tables.add_pull(**said, author=self._logins[0], head=head, base=base)
        if number is None:
            # Someone was faster: look again, and name theirs.
            return await self.open_pull_request(head=head, base=base, title=title, body=body)
        return await self.pull_request(str(number))

    async def close_pull_request(self, reference: str) -> PullRequest:
        """Close a pull request without merging it."""
        pull = await self.pull_request(reference)
        if pull.state == "open":
            await self._refs.keep_head(pull.number, pull.head_commit)
            await self._tables.close(pull.number)
        return await self.pull_request(reference)

    async def merge(self, pull: PullRequest, *, expect: Change) -> PullRequest:
        now = await self.pull_request(str(pull.number))
        if now.state == "closed":
            raise ForgeRefused(f"#{pull.number} is closed", hint=f"resolvent pr show {pull.number}")
        await self._refs.merge(now, commit=expect.commit)
        merged = await self.pull_request(str(pull.number))
        if merged.head_commit != expect.commit:
            raise HeadMoved(f"#{pull.number} was merged at {merged.head_commit}, not at {expect.commit}")
        return merged

    def checkout_line(self, pull: PullRequest) -> str:
        """What to type in one's own checkout to look at a pull request."""
        return f"git fetch {quote(str(self.path))} {quote(pull.head)} && git checkout FETCH_HEAD"

    async def review(self, pull: PullRequest, author: str, *, verdict: Opinion, body: str = "") -> PullReview:
        """Record what a person says of a pull request as it is now."""
        now = await self.pull_request(str(pull.number))
        review = PullReview(
            author=filled(author, "an author"), verdict=verdict, body=sendable(body), commit=now.head_commit
        )
        await self._tables.add_review(pull.number, review)
        return review

    async def reviews(self, pull: PullRequest) -> tuple[PullReview, ...]:
        """What people said of a pull request, oldest first."""
        return await self._tables.reviews(pull.number)

    async def comments(self, target: str) -> tuple[Comment, ...]:
        number, kind = await self._target(target)
        return await self._tables.comments(number, kind=kind)

    async def comment(self, target: str, body: str, *, author: str = "") -> Comment:
        number, kind = await self._target(target)
        text = filled(body, "a comment")
        return await self._tables.add_comment(number, kind=kind, author=sendable(author) or self._logins[0], body=text)

    async def edit_comment(self, comment: Comment, body: str) -> Comment:
        text = filled(body, "a comment")
        await self._tables.edit_comment((await self.comment_at(comment.url)).id, text)
        return await self.comment_at(comment.url)

    async def comment_at(self, url: str) -> Comment:
        number, kind = await self._target(url)
        for comment in await self._tables.comments(number, kind=kind):
            if comment.url == url:
                return comment
        raise NotFound(f"there is no comment at {url!r}", hint="resolvent issue ls")

    async def require_check(self, name: str) -> None:
        """Commits need this check from now on."""
        await self._checks.require(filled(name, "a check"))

    async def unrequire_check(self, name: str) -> None:
        """Commits no longer need this check."""
        await self._checks.unrequire(name)

    async def report_check(self, commit: str, name: str, *, state: State, log: str = "") -> None:
        """What CI says of a commit; wakes whoever waits, in any process."""
        await self._checks.report(commit, name, state=state, log=log)

    async def required_checks(self, commit: str) -> tuple[RequiredCheck, ...]:
        return await self._checks.required(commit)

    async def await_checks(self, commit: str, *, timeout_s: float) -> tuple[RequiredCheck, ...]:
        return await self._checks.settled(commit, timeout_s=timeout_s)

    async def rerun(self, check: RequiredCheck) -> None:
        await self._checks.rerun(check)

    def reruns(self) -> AsyncIterator[RequiredCheck]:
        """For whoever plays CI: every rerun that waits for a report, then each later one."""
        return self._checks.reruns()

    async def _number(self, reference: str, kind: Kind) -> int:
        """The number a reference names, when there is such an issue or pull request."""
        number = number_of(reference, kind)
        if not await self._tables.items(kind, number=number):
            raise unknown(reference, kind)
        return number

    async def _target(self, text: str) -> tuple[int, Kind]:
        number, kind = target_of(text)
        return await self._number(str(number), kind), kind

    async def _pulls(self, rows: Iterable[dict[str, Any]]) -> tuple[PullRequest, ...]:
        refs = await self._refs.read()
        pulls = []
        for row in rows:
            pull = _pull(row, refs)
            if pull.state == "merged" and row["state"] != "merged":
                # Git was first and is right: the row, and the issues it fixes, follow.
                await self._tables.land(pull.number, fixes=fixed_by(pull.body))
            pulls.append(pull)
        return tuple(pulls)


def _pull(row: dict[str, Any], refs: dict[str, str]) -> PullRequest:
    number, head = row["number"], row["head"]
    live, last = refs.get(f"refs/heads/{head}"), refs.get(last_head_ref(number))
    merged = refs.get(merged_ref(number), "")
    state = "merged" if merged else "closed" if row["state"] != "open" or live is None else "open"
    return PullRequest(
        number=number,
        url=f"local:pulls/{number}",
        title=row["title"],
        body=row["body"],
        author=row["author"],
        head=head,
        head_commit=(live if state == "open" else last or live) or NONE,
        base=row["base"],
        state=state,
        merge_commit=merged,
    )
