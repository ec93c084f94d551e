"""A subject is claimed on the forge for a run: on our own record first, so that whoever dies in between leaves no claim
that nobody would give back."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from resolvent.domain.arrival import Hold
from resolvent.engine.holder import holder_name, holder_run, holder_said
from resolvent.engine.stopping import release
from resolvent.engine.world import World
from resolvent.errors import ForgeDown, ForgeRefused, ResolventError, SubjectTaken
from resolvent.ports import Clock, Forge, Journal

# So long may pass between the claim and the run it is for; whoever takes longer is taken for dead.
LEASE_S = 600.0
CLAIMABLE = ("issue-", "pr-")


def nothing(point: str) -> None:
    """The boundary of ordinary life: nobody is killed here."""


@dataclass(frozen=True)
class Claims:
    """The claims of one store on one forge; `host` is its name there."""

    journal: Journal
    forge: Forge
    clock: Clock
    host: str
    boundary: Callable[[str], None] = nothing

    @asynccontextmanager
    async def holding(self, run: str, subjects: Sequence[str]) -> AsyncIterator[None]:
        """Claimed while the run is made or queued again; what it then does not need is given back.

        SubjectTaken names who holds one of them.
        """
        # Ours may be in our own way.
        await release(self.journal, self.forge)
        try:
            # In one order for everybody, so that of two who want the same the first gets all of it.
            for subject in sorted(set(subjects)):
                if subject.startswith(CLAIMABLE):
                    await self.claim(run, subject)
            yield
        except ResolventError:
            await self._over(run)
            raise
        await self._over(run)

    async def claim(self, run: str, subject: str, *, at_work: bool = False) -> None:
        """One subject for a run; its own again asks the forge once more, unless the run is at work or about to be."""
        now = self.clock.now()
        there = [one for one in await self.journal.holds(run) if one.state != "leaving"]
        same = next((one for one in there if one.subject == subject), None)
        if same and same.state == "claimed" and (at_work or same.until > now):
            return
        hold = await self._held(run, subject, there[0].holder if there else "")
        self.boundary("held")
        holder = await self.forge.claim(subject, hold.holder)
        self.boundary("claimed")
        if holder != hold.holder:
            raise await self._taken(hold, holder)
        await self.journal.mark_hold(hold, "claimed")

    async def _held(self, run: str, subject: str, holder: str) -> Hold:
        now = since = self.clock.now()
        while True:
            name = holder or holder_name(self.host, run, at=since)
            wanted = Hold(run=run, subject=subject, holder=name, at=now, until=now + LEASE_S)
            kept = await self.journal.hold(wanted)
            if kept:
                return kept
            # What is on its way out under a name takes whatever has that name with it.
            holder, since = "", since + 1.0

    async def _taken(self, hold: Hold, holder: str) -> SubjectTaken | ForgeDown:
        own = next((one for one in await self.journal.holds() if one.holder == holder), None)
        if own:
            await self.journal.let_go(hold)
        if own and own.state == "leaving":
            # Nobody works there: the forge did not let us give it back yet.
            return ForgeDown(f"{hold.subject} is still claimed for {own.run}, which is over", hint="try again")
        if own:
            said, hint = f"run {own.run} is active on {hold.subject}", f"resolvent watch {own.run}"
            return SubjectTaken(said, hint=hint, run=own.run, subject=hold.subject)
        await self.journal.mark_hold(hold, "refused")
        return SubjectTaken(
            f"{hold.subject} is held by {holder_said(holder)}",
            hint="resolvent claim ls",
            run=holder_run(holder),
            subject=hold.subject,
            holder=holder,
        )

    async def _over(self, run: str) -> None:
        await self.journal.settle_holds(run)
        await release(self.journal, self.forge)


async def claim_published(world: World, run: str, subject: str) -> None:
    """A run's pull request is claimed as its issue is; ForgeRefused when somebody else works on it already."""
    if not world.host and not await world.journal.holds(run):
        # Nobody else can be there: the forge is this store's own.
        return
    try:
        await Claims(world.journal, world.forge, world.clock, world.host).claim(run, subject, at_work=True)
    except SubjectTaken as taken:
        raise ForgeRefused(taken.message, hint=taken.hint) from taken
    await world.journal.settle_holds(run)
