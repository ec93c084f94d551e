"""A run that is called off: why, told once where it worked; and what it held there, given back."""

import asyncio
import contextlib
from collections.abc import Callable

from resolvent.domain.neutral import line
from resolvent.domain.outcome import CalledOff
from resolvent.domain.record import EffectRow, RunRow
from resolvent.domain.subject import Comment
from resolvent.engine.waiting import told_to_wait
from resolvent.engine.world import World, nothing
from resolvent.errors import Bug, ResolventError, StoreBusy, Unavailable
from resolvent.ports import Forge, Journal


async def called_off(world: World, run: str) -> CalledOff | None:
    """How a run ends that was asked to end. A reason from outside is told on its subject first, by one comment.

    None when this process is about to end and the forge wants to be left alone: the next one tells it.
    """
    row = await world.journal.run(run)
    reason = row.called_off.partition("\n")[0]
    if not reason:
        return CalledOff(reason="cancelled by a person")
    if not row.subject.startswith(("issue-", "pr-")):
        return CalledOff(reason=reason)
    try:
        if not await _patiently(world, row):
            return None
    except (StoreBusy, Bug):
        raise
    except ResolventError as error:
        # Nobody can be told there; the run ends all the same.
        return CalledOff(reason=f"{reason}; {row.subject} could not be told: {error.message}")
    return CalledOff(reason=reason)


async def release(journal: Journal, forge: Forge, boundary: Callable[[str, str], None] = nothing) -> None:
    """Give back what was claimed on the forge for runs that are over; what cannot be now is tried at the next end.

    It is on the record as on its way out before, so a run that is tried again meanwhile claims under another name.
    """
    for hold in await journal.holds_over():
        boundary("before", f"{hold.run}/release")
        try:
            await forge.release(hold.subject, hold.holder)
        except (StoreBusy, Bug):
            raise
        except ResolventError:
            continue
        boundary("during", f"{hold.run}/release")
        await journal.let_go(hold)


async def _patiently(world: World, row: RunRow) -> bool:
    """Tell it, as often and as late as the forge wants; False when this process is about to end before."""
    for delay in (*world.backoff.delays(), None):
        try:
            await _tell(world, row)
        except StoreBusy:
            raise
        except Unavailable as error:
            if delay is None:
                raise
            pause = max(delay, told_to_wait(world, error))
        else:
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(world.draining.wait(), pause)
            return False
    raise AssertionError("the last try returns or raises")


async def _tell(world: World, row: RunRow) -> None:
    """One comment per run under its marker, looked for before it is written; it says why the run was stopped last."""
    reason, _, more = row.called_off.partition("\n")
    marker = f"<!-- resolvent-stopped:{row.id} -->"
    body = "\n\n".join(filter(None, (f"Stopped {row.id}: {line(reason)}.", more.strip(), marker)))
    effect = EffectRow(id=f"{row.id}/stop#{row.plays}", run=row.id, kind="comment", target=row.subject, marker=marker)
    await world.journal.save_effect(effect)
    world.boundary("before", effect.id)
    there = await _standing(world, row.subject, marker)
    if there is None:
        there = await world.forge.comment(row.subject, body)
    elif there.body.strip() != body:
        there = await world.forge.edit_comment(there, body)
    world.boundary("during", effect.id)
    written = {"comment": there.model_dump(mode="json"), "summary": there.url}
    await world.journal.save_effect(effect.model_copy(update={"state": "done", "result": written}))
    world.boundary("after", effect.id)


async def _standing(world: World, target: str, marker: str) -> Comment | None:
    trusted = await world.forge.trusted()
    for there in await world.forge.comments(target):
        if there.author in trusted and marker in there.body:
            return there
    return None
