"""What every part of intake works with, and whom it tells what became of an arrival."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from resolvent.domain.arrival import Arrival, Fate
from resolvent.intake.configured import Configuration
from resolvent.ports import Forge, Journal
from resolvent.ports.arrivals import Arrivals
from resolvent.wiring import Home


def nothing(point: str) -> None:
    """The boundary of ordinary life: nobody is killed here."""


@dataclass(frozen=True)
class Desk:
    """One repository's arrivals, the configuration they are judged by, and who is told."""

    home: Home
    arrivals: Arrivals
    configuration: Configuration
    told: Callable[[Arrival], None]
    boundary: Callable[[str], None] = nothing

    async def forge(self) -> Forge:
        return await self.home.forge()

    async def journal(self) -> Journal:
        return await self.home.journal()

    async def settle(self, arrival: Arrival, fate: Fate, *, reason: str = "") -> Arrival:
        """Put on the record what became of it, and tell."""
        settled = await self.arrivals.settle(arrival, fate, reason=reason)
        self.boundary("settled")
        self.told(settled)
        return settled


def new_run() -> str:
    """A name for the run that may come of an arrival: known before anything is done about it."""
    return f"r{secrets.token_hex(4)}"
