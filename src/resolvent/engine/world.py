"""The world as the engine sees it: one of each port, and how much may run at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from resolvent.domain.record import AgentChoice
from resolvent.engine.breakers import Breakers
from resolvent.engine.budgets import Budgets
from resolvent.errors import ResolventError, StepFailed, StoreBusy
from resolvent.ports import Agent, Clock, Forge, Jobs, Journal, Repository, Workspace

Kind = Literal["agents", "checks", "effects"]


def nothing(point: str, verb: str) -> None:
    """The boundary of ordinary life: nobody is killed here."""


@dataclass(frozen=True)
class Backoff:
    """How often and how patiently a healing world is asked again."""

    first_s: float = 0.2
    factor: float = 2.0
    most_s: float = 30.0
    tries: int = 6

    @classmethod
    def lasting(cls, seconds: float, *, first_s: float = 1.0, most_s: float = 300.0) -> "Backoff":
        """Pauses that grow to a few minutes, and last so long in all."""
        tries, lasted = 1, 0.0
        while lasted < seconds:
            lasted, tries = lasted + min(first_s * 2.0 ** (tries - 1), most_s), tries + 1
        return cls(first_s=first_s, factor=2.0, most_s=most_s, tries=tries)

    def delays(self) -> list[float]:
        """The pauses between the tries."""
        return [min(self.first_s * self.factor**n, self.most_s) for n in range(self.tries - 1)]


class Slots:
    """What may run at once in this process; taken inside a verb just before its work, so recovery obeys them too."""

    def __init__(self, *, agents: int, checks: int) -> None:
        self._free = {"agents": asyncio.Semaphore(agents), "checks": asyncio.Semaphore(checks)}
        self._free["effects"] = asyncio.Semaphore(1)
        self._inside: dict[asyncio.Future[None], tuple[str, str]] = {}
        self.called_off: set[str] = set()

    @asynccontextmanager
    async def take(self, kind: Kind, run: str) -> AsyncIterator[None]:
        """Wait for a slot; StepFailed when the run was called off meanwhile: nobody waits for those outside."""
        async with self._free[kind]:
            if run in self.called_off:
                raise StepFailed("the run was called off before this step began")
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._inside[done] = (kind, run)
            try:
                yield
            finally:
                del self._inside[done]
                done.set_result(None)

    def inside(self, *kinds: Kind, run: str = "") -> list[asyncio.Future[None]]:
        """The work under way, each done when it is over; of one run when it is named, of some kinds when they are."""
        return [
            done
            for done, (kind, whose) in self._inside.items()
            if (not run or whose == run) and (not kinds or kind in kinds)
        ]


@dataclass(frozen=True)
class World:
    """Everything outside the playbook."""

    journal: Journal
    forge: Forge
    repository: Repository
    workspace: Workspace
    jobs: Jobs
    clock: Clock
    agent: Callable[[AgentChoice], Agent]
    slots: Slots
    # The whole environment of a check, apart from its private HOME and TMPDIR.
    environment: dict[str, str]
    private_directory: Callable[[str], str]
    budgets: Budgets
    backoff: Backoff = field(default_factory=Backoff)
    # With an agent whose model does not say when it will be there again.
    patience: Backoff = field(default_factory=Backoff)
    breakers: Breakers = field(default_factory=Breakers)
    boundary: Callable[[str, str], None] = nothing
    # The name of this store among others that use the same forge; empty where there can be no others.
    host: str = ""
    # Set once, when this process is about to end: no verb begins any more.
    draining: asyncio.Event = field(default_factory=asyncio.Event)

    async def drop(self, branch: str) -> None:
        """Remove a branch; files that cannot be removed, such as another user's, are a nuisance and fail nothing."""
        try:
            await self.workspace.drop(branch)
        except StoreBusy:
            raise
        except ResolventError:
            return
