"""Claims on the forge as people look after them: who holds what, and ending one whose host is gone."""

from typing import NamedTuple

from resolvent.adapters.journal.arrivals import StoredArrivals
from resolvent.domain.arrival import Hold
from resolvent.engine.holder import holder_run, holder_said
from resolvent.errors import NotFound, UsageError
from resolvent.wiring import Home


class Claim(NamedTuple):
    """Who holds a subject."""

    subject: str
    holder: str
    ours: bool
    said: str


async def claims(home: Home) -> tuple[Claim, ...]:
    """Those of this store, then those of other hosts that kept it from a run and still do."""
    journal, forge = await home.journal(), await home.forge()
    ours = [Claim(one.subject, one.holder, True, holder_said(one.holder)) for one in await journal.holds()]
    elsewhere = await StoredArrivals(journal.store, home.clock.now).with_fate("elsewhere")
    refused = await journal.holds_refused()
    others = []
    for subject in dict.fromkeys([*(one.subject for one in elsewhere), *(one.subject for one in refused)]):
        holder = await forge.holder(subject)
        if holder and holder not in {one.holder for one in ours}:
            others.append(Claim(subject, holder, False, holder_said(holder)))
        for one in refused:
            if not holder and one.subject == subject:
                await journal.let_go(one)
    return (*ours, *others)


async def end_claim(home: Home, subject: str, *, force: bool) -> Claim | None:
    """End the claim on a subject; None when nobody holds it, UsageError when that is not ours to end."""
    journal, forge = await home.journal(), await home.forge()
    holder = await forge.holder(subject)
    if not holder:
        return None
    own = {one.holder: one for one in await journal.holds()}
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
