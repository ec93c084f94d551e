"""Intake as `serve` runs it beside the worker: news is asked for or told, recorded, and taken up one by one."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from resolvent.adapters.journal.arrivals import StoredArrivals
from resolvent.domain.arrival import Arrival
from resolvent.errors import Bug, ForgeRefused, ResolventError, StoreBusy, Unavailable
from resolvent.intake.configured import Configuration
from resolvent.intake.desk import Desk, nothing
from resolvent.intake.listening import Listener, serve
from resolvent.intake.polling import poll
from resolvent.intake.taking import OURS, take
from resolvent.intake.webhooks import Webhooks
from resolvent.wiring import Home

# After a refusal: so long is nothing tried again, unless the forge itself says until when.
PAUSE_S = 30.0
LONGEST_PAUSE_S = 300.0
# So often is one arrival tried that fails for a reason of its own; who must act on any other reason is told, and may.
TRIES = 5


@dataclass(frozen=True)
class Ears:
    """Who is told what became of an arrival, and what stands in the way."""

    told: Callable[[Arrival], None]
    trouble: Callable[[ResolventError], None]
    boundary: Callable[[str], None] = nothing


class Intake:
    """The one intake of a store: whoever holds the worker's lock runs it."""

    def __init__(self, desk: Desk, *, trouble: Callable[[ResolventError], None]) -> None:
        self.desk = desk
        self._trouble = trouble
        self._said: dict[str, str] = {}
        # Instants of this process's own clock, which nobody sets.
        self._poll_at = 0.0
        self._again_at = 0.0
        self._later: dict[str, float] = {}
        # When it was last asked whether somebody's time has come: what came since is not to be slept through.
        self._looked_at = 0.0
        self._tries: dict[str, int] = {}
        self._polled = False

    @classmethod
    async def open(cls, home: Home, ears: Ears) -> "Intake":
        """The intake of a repository, as its default branch configures it."""
        arrivals = StoredArrivals((await home.journal()).store, home.clock.now)
        desk = Desk(home, arrivals, Configuration(home), ears.told, ears.boundary)
        return cls(desk, trouble=ears.trouble)

    async def once(self) -> None:
        """Ask for news once, and take up all there is."""
        await self._ask()
        await self._take_all()

    async def run(self, listener: Listener | None = None) -> None:
        """Take up what comes, for ever."""
        parts = [self._work(), *([self._serve(listener)] if listener else [])]
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in done:
            task.result()

    async def _serve(self, listener: Listener) -> None:
        await serve(Webhooks(self.desk, secret=listener.secret), listener)

    async def _work(self) -> None:
        journal, loop = await self.desk.home.journal(), asyncio.get_running_loop()
        every = self.desk.home.settings.intake.poll
        seen = await journal.changed(since=-1)
        while True:
            # The first look is made also where webhooks tell: nobody told us what happened while we were away.
            if loop.time() >= self._poll_at and (every or not self._polled):
                await self._ask()
                self._poll_at = loop.time() + (every or PAUSE_S)
            await self._take_all()
            seen = await journal.changed(since=seen, timeout_s=self._patience(every))

    def _patience(self, every: float) -> float | None:
        """How long there is nothing to do by the clock; None: for ever."""
        now = asyncio.get_running_loop().time()
        times = [self._poll_at] if every or not self._polled else []
        times += [at for at in (self._again_at, *self._later.values()) if at > self._looked_at]
        return max(0.0, min(times) - now) if times else None

    async def _ask(self) -> None:
        try:
            await poll(self.desk, all_runs=not self._polled)
        except ResolventError as error:
            self._bear("news", error)
        else:
            self._polled = True
            self._again_at = 0.0
            self._said.pop("news", None)

    async def _take_all(self) -> None:
        now = self._looked_at = asyncio.get_running_loop().time()
        for arrival in await self.desk.arrivals.pending():
            if now < max(self._again_at, self._later.get(arrival.id, 0.0)):
                continue
            try:
                await take(self.desk, arrival)
            except ResolventError as error:
                self._bear(arrival.id, error)
                await self._put_off(arrival, error)
            else:
                self._forget(arrival)

    async def _put_off(self, arrival: Arrival, error: ResolventError) -> None:
        """Try it later, and later each time; what will not succeed by itself is refused in the end."""
        tries = self._tries[arrival.id] = self._tries.get(arrival.id, 0) + 1
        if _its_own(error) and await self.desk.arrivals.tried(arrival) >= TRIES:
            self._forget(arrival)
            await self.desk.settle(arrival, "refused", reason=error.message)
            return
        factor = 1 if isinstance(error, Unavailable) else 2 ** min(tries - 1, 10)
        self._later[arrival.id] = asyncio.get_running_loop().time() + min(PAUSE_S * factor, LONGEST_PAUSE_S)

    def _forget(self, arrival: Arrival) -> None:
        self._later.pop(arrival.id, None)
        self._said.pop(arrival.id, None)
        self._tries.pop(arrival.id, None)

    def _bear(self, about: str, error: ResolventError) -> None:
        """Tell it once, and try later: nothing is lost meanwhile."""
        if isinstance(error, StoreBusy | Bug):
            raise error
        if error.message not in self._said.values():
            self._trouble(error)
        self._said[about] = error.message
        if isinstance(error, Unavailable):
            # It would say the same to the next.
            until = error.details.get("until")
            wait = until - self.desk.home.clock.now() if isinstance(until, int | float) else 0.0
            self._again_at = asyncio.get_running_loop().time() + max(PAUSE_S, wait)


def _its_own(error: ResolventError) -> bool:
    """Neither the world, nor our configuration, nor our token is why."""
    ours = isinstance(error, OURS) or (isinstance(error, ForgeRefused) and error.details.get("auth"))
    return not ours and not isinstance(error, Unavailable)
