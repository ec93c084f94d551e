"""A town: one forge that several hosts share, the people who write there, and what each host took up."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resolvent.domain.arrival import Arrival
from resolvent.domain.record import RunRow
from resolvent.domain.subject import Comment
from resolvent.errors import ResolventError
from resolvent.forge_server.holdings import Account, Item
from resolvent.forge_server.hub import Hub
from resolvent.intake.desk import nothing
from resolvent.intake.intake import Ears, Intake
from resolvent.testing.demo_story import Scene, write_story
from resolvent.testing.stage import FILES, Stage, make_project, scene
from resolvent.working import Session

LOGIN = "resolvent"
QUICK = ("policy.reproduce_runs=1", "policy.prove_runs=1", "policy.variants=0", "policy.minimise=off")
SOON_S = 60
DECLINED = [scene("analyze", "VERDICT=INVALID")]


class Host:
    """One machine with its own store, on the forge of the town."""

    def __init__(self, stage: Stage, *, boundary: Callable[[str], None] = nothing) -> None:
        self.stage = stage
        self.home = stage.app.home
        self.told: list[Arrival] = []
        self.troubles: list[ResolventError] = []
        self._boundary = boundary
        self._intake: Intake | None = None

    async def intake(self) -> Intake:
        if self._intake is None:
            ears = Ears(self.told.append, self.troubles.append, self._boundary)
            self._intake = await Intake.open(self.home, ears)
        return self._intake

    async def look(self) -> list[tuple[str, str, str]]:
        """Ask for news once; what became of what came: kind, subject, fate."""
        before = len(self.told)
        await (await self.intake()).once()
        assert all(error.message for error in self.troubles)
        return [(one.kind, one.subject, one.fate) for one in self.told[before:]]

    async def work(self, scenes: list[Scene] = DECLINED) -> None:
        """Be the worker until nothing is left to do."""
        write_story(self.stage.directory / "story.json", scenes)
        await Session(self.home).serve_until_idle()

    async def runs(self) -> list[RunRow]:
        return list(reversed(await (await self.home.journal()).runs()))

    async def outcomes(self) -> list[tuple[str, str]]:
        return [(row.outcome or row.state, row.reason) for row in await self.runs()]


class Town:
    """One forge, and whoever writes there."""

    def __init__(self, directory: Path, hub: Hub) -> None:
        self.directory = directory
        self.hub = hub
        self.hosts: list[Host] = []

    @classmethod
    async def built(cls, directory: Path) -> "Town":
        hub = await Hub.open(directory / "hub", owner="acme", name="widgets")
        for login, permission in ((LOGIN, "admin"), ("ada", "write"), ("eve", "read"), ("tri", "triage")):
            await hub.account(login, permission=permission)  # type: ignore[arg-type]
        await hub.account("helper[bot]", kind="Bot", permission="write")
        return cls(directory, hub)

    async def host(
        self, name: str = "alpha", *overrides: str, files: dict[str, str] = FILES, boundary: Any = nothing
    ) -> Host:
        place = self.directory / name
        if not (place / "project").exists():
            await make_project(place / "project", files)
        stage = Stage(place, overrides=(*QUICK, *overrides))
        forge = self.hub.forge.acting_as(LOGIN)
        stage.app.home._opened["forge"] = forge
        await forge.sync(stage.project)
        self.hosts.append(Host(stage, boundary=boundary))
        return self.hosts[-1]

    async def person(self, login: str) -> Account:
        return (await self.hub.holdings()).accounts[login]

    async def issue(self, *labels: str, body: str = "It should be good.", by: str = "ada") -> Item:
        return await self.hub.open_issue(await self.person(by), title="The value is bad", body=body, labels=labels)

    async def says(self, by: str, number: int, body: str) -> None:
        await self.hub.remark(await self.person(by), number, body)

    async def item(self, number: int) -> Item:
        return (await self.hub.holdings()).items[number]

    async def reactions(self, number: int) -> list[tuple[str, str]]:
        """Where, and what: `issue` or the text of the comment."""
        item = await self.item(number)
        found = [("issue", one.content) for one in item.reactions]
        return found + [(said.body, one.content) for said in item.remarks for one in said.reactions]

    async def comments(self, target: str) -> tuple[Comment, ...]:
        return await self.hub.forge.comments(target)

    async def claims(self) -> dict[str, str]:
        """Who holds what on the forge."""
        found, prefix = {}, "refs/resolvent/claims/"
        for ref, id in (await self.hub.holdings()).refs.items():
            if ref.startswith(prefix):
                said = await self.hub.commit(id)
                found[ref.removeprefix(prefix)] = said.message.strip() if said else ""
        return found

    async def close(self) -> None:
        for host in self.hosts:
            await host.stage.close()
        await self.hub.close()


async def until(condition: Callable[[], Any], host: Host, *, beside: "asyncio.Task[None]") -> None:
    """Return when the condition holds, looking whenever something was written; what ends beside it before is shown."""
    journal, seen = await host.home.journal(), 0
    async with asyncio.timeout(SOON_S):
        while not await condition():
            if beside.done():
                beside.result()
            assert not host.troubles, host.troubles[0].message
            seen = await journal.changed(since=seen, timeout_s=1.0)
