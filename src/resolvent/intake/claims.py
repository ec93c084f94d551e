"""Claims on the forge as people look after them: who holds what, and ending one whose host is gone."""

import secrets
from typing import NamedTuple

from resolvent.adapters.journal.arrivals import StoredArrivals
from resolvent.domain.arrival import Hold
from resolvent.errors import NotFound, UsageError
from resolvent.intake.holders import holder_name, holder_run, holder_said
from resolvent.wiring import Home


class Claim(NamedTuple):
    """Who holds a subject."""

    subject: str
    holder: str
    ours: bool
    said: str


async def claims(home: Home) -> tuple[Claim, ...]:
    """Those of this store, then those of other hosts that kept it from a run and still do."""
    arrivals = await _arrivals(home)
    ours = [Claim(one.subject, one.holder, True, holder_said(one.holder)) for one in await arrivals.holds()]
    kept = dict.fromkeys(one.subject for one in await arrivals.with_fate("elsewhere"))
    others = []
    for subject in kept:
        holder = await _holder(home, subject)
        if holder and holder not in {one.holder for one in ours}:
            others.append(Claim(subject, holder, False, holder_said(holder)))
    return (*ours, *others)


async def end_claim(home: Home, subject: str, *, force: bool) -> Claim | None:
    """End the claim on a subject; None when nobody holds it, UsageError when that is not ours to end."""
    arrivals, forge = await _arrivals(home), await home.forge()
    holder = await _holder(home, subject)
    if not holder:
        return None
    own = {one.holder: one for one in await arrivals.holds()}
    claim = Claim(subject, holder, holder in own, holder_said(holder))
    if not force and not await _over(home, own.get(holder)):
        here = "and that is at work" if claim.ours else "which may be at work"
        raise UsageError(
            f"{subject} is held by {claim.said}, {here}",
            hint=f"resolvent cancel {holder_run(holder)}"
            if claim.ours
            else f"resolvent claim release {subject} --force  # if that host is gone",
        )
    await forge.release(subject, holder)
    return claim


async def _over(home: Home, hold: Hold | None) -> bool:
    if hold is None:
        return False
    try:
        return (await (await home.journal()).run(hold.run)).state == "ended"
    except NotFound:
        return True


async def _holder(home: Home, subject: str) -> str:
    """Who holds it now. There is one way to find out: to claim it, and to give it back if nobody did."""
    forge, arrivals, run = await home.forge(), await _arrivals(home), f"look-{secrets.token_hex(4)}"
    mine = Hold(run=run, subject=subject, holder=holder_name(home, run), at=home.clock.now())
    # On record, so that a worker gives it back if we do not come to it.
    await arrivals.hold(mine)
    holder = await forge.claim(subject, mine.holder)
    if holder == mine.holder:
        await forge.release(subject, mine.holder)
    await (await home.journal()).let_go(run)
    return "" if holder == mine.holder else holder


async def _arrivals(home: Home) -> StoredArrivals:
    return StoredArrivals((await home.journal()).store, home.clock.now)
