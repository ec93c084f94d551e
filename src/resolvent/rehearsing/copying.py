"""From the real forge to the rehearsal: one issue or pull request with all that belongs to it, only ever read."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from resolvent.adapters.forges.local_git import branch_ref
from resolvent.adapters.git import environment
from resolvent.adapters.journal.store import Connection
from resolvent.domain.subject import Issue, Permission, PullRequest, RequiredCheck
from resolvent.errors import ForgeRefused, GitError, NotFound, UsageError
from resolvent.forge_server.holdings import Account
from resolvent.forge_server.hub import Hub, Proposal
from resolvent.ports import Forge

Subject = Issue | PullRequest
CONCLUSIONS = {"passed": "success", "failed": "failure"}
_HOLD = "INSERT INTO forge_items (number, kind, title, body, author) VALUES (:number, 'held', '', '', '')"
_LET_GO = "DELETE FROM forge_items WHERE kind = 'held'"


@dataclass
class Then:
    """The moment that something was written on the real forge."""

    at: float = 0.0
    frozen_at: float | None = None

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.at


@dataclass
class Copying:
    """One copy under way: what `source` has is written to `hub` in the name, and at the time, it was written in."""

    source: Forge
    hub: Hub
    then: Then
    # Another place than the real forge to take commits from.
    origin: str = ""
    # Whose branches for the same subject count as our own.
    login: str = ""
    _known: dict[str, Account] = field(default_factory=dict)

    async def copy(self, subject: Subject) -> None:
        """Bring the default branch, the subject, and what a run would look for beside it."""
        self.login = await self.source.login()
        # Before anybody is met who wrote something: these two are needed here, whatever they may there.
        await self._account(self.hub.owner, at_least="admin")
        await self._account(self.login, at_least="write")
        branch = await self.source.default_branch()
        base = await self._branch(branch)
        await self.hub.git("symbolic-ref", "HEAD", branch_ref(branch))
        items: dict[int, Subject] = {item.number: item for item in await self._belonging(subject) if item.number}
        for number in sorted(items):
            await self._item(items[number])
        await self._required(base)

    async def _belonging(self, subject: Subject) -> list[Subject]:
        """The subject, the issue it fixes, and a pull request that we opened for it before."""
        if isinstance(subject, Issue):
            earlier = await self.source.pull_requests(head=f"resolvent/{subject.key}", state="open")
            return [subject, *earlier]
        if subject.closes:
            try:
                return [await self.source.issue(subject.closes), subject]
            except NotFound:
                pass
        return [subject]

    # --- commits

    async def _branch(self, name: str, *, commit: str = "") -> str:
        """Bring a branch, at that commit if one is named; returns the commit it is at."""
        if self.origin and not commit:
            brought = await self._from_origin(name)
        else:
            brought = await self.source.fetch(self.hub.git.git_dir, commit or name)
        await self.hub.git("update-ref", branch_ref(name), brought)
        await self.hub.git("update-ref", "-d", f"refs/forge/{brought}")
        return brought

    async def _from_origin(self, branch: str) -> str:
        """From the repository a person named: its own branch, or what it knows of the forge's."""
        git, brought, said = self.hub.git, "refs/forge/brought", ""
        allowed = {"GIT_ALLOW_PROTOCOL": "https" if self.origin.startswith("https://") else "file"}
        for ref in (branch_ref(branch), f"refs/remotes/origin/{branch}"):
            words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", self.origin, f"+{ref}:{brought}")
            try:
                await git("-c", "fetch.fsckObjects=true", *words, env=allowed)
            except GitError as error:
                said = said or error.message
                continue
            commit = (await git("rev-parse", brought)).decode().strip()
            await git("update-ref", "-d", brought)
            return commit
        raise UsageError(
            f"{self.origin} does not give {branch}: {said}", hint="name another place with --from, or none"
        )

    # --- issues and pull requests

    async def _item(self, item: Subject) -> None:
        """One issue or pull request under its own number, with its labels and comments."""
        assert item.number is not None
        self.then.at = item.created_at
        author = await self._account(item.author)
        hold = item.number - 1
        await self.hub.tables.change(lambda connection, at: _held(connection, hold))
        if isinstance(item, Issue):
            await self.hub.open_issue(author, title=item.title, body=item.body)
        else:
            await self._pull(item, author)
        await self.hub.tables.change(lambda connection, at: connection.write(_LET_GO))
        owner = await self._account(self.hub.owner)
        await self.hub.label(owner, item.number, add=item.labels)
        for comment in await self.source.comments(item.key):
            self.then.at = comment.created_at
            await self.hub.remark(await self._account(comment.author), item.number, comment.body)
        if item.state != "open":
            self.then.at = item.updated_at
            await self.hub.set_state(owner, item.number, "closed")

    async def _pull(self, pull: PullRequest, author: Account) -> None:
        await self._branch(pull.head, commit=pull.head_commit)
        if await self.hub.forge.head_of(pull.base) is None:
            await self._branch(pull.base)
        said = {name: getattr(pull, name) for name in ("head", "base", "title", "body", "draft")}
        await self.hub.open_pull(author, Proposal(**said))

    async def _account(self, login: str, *, at_least: Permission | None = None) -> Account:
        """Somebody with the rights they have on the real forge; who is gone there is `ghost`, as on GitHub."""
        login = login or "ghost"
        if login not in self._known:
            rights = at_least or await self._rights(login)
            kind: Literal["Bot", "User"] = "Bot" if login.endswith("[bot]") else "User"
            self._known[login] = await self.hub.account(login, kind=kind, permission=rights)
        return self._known[login]

    async def _rights(self, login: str) -> Permission:
        """What somebody may do; everybody may read what is rehearsed, or what they wrote could not be there."""
        if login == "ghost":
            return "read"
        try:
            may = await self.source.permission(login)
        except ForgeRefused:
            # Only who may push there is told what others may.
            return "read"
        return "read" if may == "none" else may

    # --- checks

    async def _required(self, base: str) -> None:
        """The names that the real forge requires, with what its CI said of the base."""
        checks = await self.source.required_checks(base)
        await self.hub.require([check.name for check in checks])
        for check in checks:
            await self._reported(check)

    async def _reported(self, check: RequiredCheck) -> None:
        if check.state in CONCLUSIONS:
            said = CONCLUSIONS[check.state]
            await self.hub.report(check.commit, check.name, conclusion=said, log=check.log)


def _held(connection: Connection, number: int) -> None:
    """Let the next item have the number after this one."""
    if number and not connection.read("SELECT 1 FROM forge_items WHERE number = :number", number=number):
        connection.write(_HOLD, number=number)


async def check_out(git_dir: Path, into: Path) -> None:
    """A checkout of a repository's default branch, with nobody's hooks, filters or submodules."""
    words = ["git", "-c", "core.hooksPath=/dev/null", "clone", "--quiet", "--no-hardlinks", "--template=", "--"]
    process = await asyncio.create_subprocess_exec(
        *words,
        str(git_dir),
        str(into),
        env=environment({"GIT_ALLOW_PROTOCOL": "file"}),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    if process.returncode:
        why = said.decode("utf-8", "replace").strip().splitlines()[-1:] or ["git ended badly"]
        raise UsageError(f"the copy could not be checked out: {why[0]}", hint="git --version")
