"""What the server keeps beside the hub: what was asked of it, what goes wrong, and who listens."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from resolvent.forge_server.bots import Bots
from resolvent.forge_server.door_rates import Rates
from resolvent.forge_server.faults import Faults
from resolvent.forge_server.hooks import Hooks
from resolvent.forge_server.hub import Hub

KEPT = 10_000


@dataclass(frozen=True)
class Seen:
    """One request, when it was answered; `status` is 0 when the connection was cut instead."""

    method: str
    path: str
    status: int
    login: str = ""
    query: str = ""


@dataclass
class Backstage:
    """What a test or a person behind the scenes can look at and change while the server runs."""

    rates: Rates
    faults: Faults
    hooks: Hooks
    bots: Bots
    requests: list[Seen] = field(default_factory=list)
    # Former `owner/name`s, from which GitHub leads to the present one.
    formerly: set[str] = field(default_factory=set)
    # Issues that are in another repository now: number → `owner/name#number`.
    transferred: dict[int, str] = field(default_factory=dict)
    # Issues are listed by cursor, and a numbered page of them is refused; otherwise all lists are by number.
    cursors: bool = False

    @classmethod
    def of(cls, hub: Hub, base: str) -> "Backstage":
        """A new one, which listens to everything that is written on the hub."""
        faults = Faults()
        made = cls(Rates(hub.clock), faults, Hooks(hub, base, faults), Bots(hub))
        hub.listen(made.hooks.heard)
        hub.listen(made.bots.heard)
        return made

    def saw(self, seen: Seen) -> None:
        """Remember a request; the oldest are forgotten."""
        self.requests.append(seen)
        del self.requests[:-KEPT]

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """While this is open, webhooks are delivered and bots answer."""
        tasks = [asyncio.ensure_future(self.hooks.run()), asyncio.ensure_future(self.bots.run())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            # Whatever ended one of them before its time is a fault of ours, and is not kept quiet.
            if not task.cancelled():
                task.result()
