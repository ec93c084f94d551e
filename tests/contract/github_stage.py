"""The forge contract on GitHub's adapter: the rehearsal forge over real HTTPS, and what others do behind it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.contract.forge_stage import PassingClock, made

from resolvent.adapters.forges.github import GitHubForge, GitHubPlace
from resolvent.adapters.git import Git
from resolvent.domain.change import Change
from resolvent.domain.subject import Comment, Permission, PullRequest
from resolvent.forge_server.faults import Fault
from resolvent.forge_server.holdings import Account
from resolvent.forge_server.hub import Hub
from resolvent.forge_server.serving import Seen, Serving, serving

OWNER, NAME, LOGIN = "acme", "widgets", "resolvent"
REPO = f"{OWNER}/{NAME}"


class GitHubStage:
    """A repository with one commit on a rehearsal forge, and the adapter that talks to it as `resolvent`."""

    def __init__(self, served: Serving, source: Path, base: Change, place: GitHubPlace) -> None:
        self.served = served
        self.hub: Hub = served.hub
        self.source = source
        self.base = base
        self.place = place
        self.forge = GitHubForge(place)
        self._others: list[GitHubForge] = []

    @classmethod
    @asynccontextmanager
    async def set(cls, directory: Path, *, certified: Path) -> AsyncIterator["GitHubStage"]:
        source = directory / "repo.git"
        await Git.init_bare(source)
        base = await made(source, {"a.txt": "one\n"})
        hub = await Hub.open(directory / "hub", owner=OWNER, name=NAME, clock=PassingClock())
        await hub.account(LOGIN, permission="admin")
        await hub.forge.push(base, source=source, head="main", expect=None)
        async with serving(hub, certified=certified) as served:
            place = GitHubPlace(
                repo=REPO,
                api=f"{served.url}/api/v3",
                token=await hub.token(LOGIN),
                ca=str(served.ca),
                trusted_logins=("maintainer",),
                cache=directory / "cache",
                poll_s=0.02,
                retry_s=0.01,
            )
            stage = cls(served, source, base, place)
            try:
                yield stage
            finally:
                for forge in (stage.forge, *stage._others):
                    await forge.close()
        await hub.close()

    def another(self, **said: Any) -> GitHubForge:
        """The same repository, seen by somebody else or in another way."""
        self._others.append(GitHubForge(replace(self.place, **said)))
        return self._others[-1]

    def goes_wrong(self, kind: Any, **said: Any) -> None:
        """A fault from now on."""
        self.served.faults.add(Fault(kind=kind, **said))

    def requests(self, start: int = 0) -> list[Seen]:
        """What the server was asked since."""
        return self.served.requests[start:]

    async def account(self, login: str) -> Account:
        return (await self.hub.holdings()).accounts.get(login) or await self.hub.account(login)

    def later(self, seconds: float) -> None:
        clock = self.hub.clock
        assert isinstance(clock, PassingClock)
        clock.passed += seconds

    async def knows(self, login: str, permission: Permission) -> None:
        await self.hub.account(login, permission=permission)

    async def says(self, author: str, target: str, body: str) -> None:
        await self.hub.remark(await self.account(author), int(target.partition("-")[2]), body)

    async def closes(self, target: str) -> None:
        await self.hub.set_state(await self.account(OWNER), int(target.partition("-")[2]), "closed")

    async def asked(self, pull: PullRequest) -> tuple[str, ...]:
        return tuple(sorted((await self.hub.item(pull.number)).reviewers))

    async def reactions(self, to: Comment | str) -> tuple[tuple[str, str], ...]:
        if isinstance(to, str):
            found = (await self.hub.item(int(to.partition("-")[2]))).reactions
        else:
            found = (await self.hub.find_remark(int(to.id))).reactions
        return tuple((one.login, one.content) for one in found)

    async def requires(self, *checks: str) -> None:
        await self.hub.require(checks)

    async def reports(self, commit: str, check: str, state: str, log: str = "") -> None:
        conclusion = {"passed": "success", "failed": "failure"}.get(state, "")
        await self.hub.report(
            commit, check, status="completed" if conclusion else "in_progress", conclusion=conclusion, log=log
        )

    async def answers_reruns(self, state: str) -> None:
        async for check in self.hub.forge.reruns():
            await self.reports(check.commit, check.name, state)
